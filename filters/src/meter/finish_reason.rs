//! Why choices end, as a closed list.
//!
//! In: the word of a `finish_reason`. Out: counts. A word that is not in the list is counted as one kind, so that no
//! server can add labels.

use crate::json::Text;

/// Why a choice ended (OpenAI's words, and vLLM's three more).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The end of the text or a stop sequence.
    Stop,
    /// `max_tokens` or the context window.
    Length,
    /// The model calls tools.
    ToolCalls,
    /// The same in OpenAI's older form.
    FunctionCall,
    /// Held back by a filter.
    ContentFilter,
    /// vLLM: the engine gave the request up.
    Abort,
    /// vLLM: the engine failed.
    Error,
    /// vLLM: the model repeats itself.
    Repetition,
    /// Any other word.
    Other,
}

impl FinishReason {
    /// All of them.
    pub const ALL: [FinishReason; 9] = [
        FinishReason::Stop,
        FinishReason::Length,
        FinishReason::ToolCalls,
        FinishReason::FunctionCall,
        FinishReason::ContentFilter,
        FinishReason::Abort,
        FinishReason::Error,
        FinishReason::Repetition,
        FinishReason::Other,
    ];

    /// The word on the wire, and the metric label.
    pub fn label(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::ToolCalls => "tool_calls",
            FinishReason::FunctionCall => "function_call",
            FinishReason::ContentFilter => "content_filter",
            FinishReason::Abort => "abort",
            FinishReason::Error => "error",
            FinishReason::Repetition => "repetition",
            FinishReason::Other => "other",
        }
    }

    pub(super) fn of(word: Text<'_>) -> FinishReason {
        FinishReason::ALL
            .into_iter()
            .find(|reason| word.is(reason.label()))
            .unwrap_or(FinishReason::Other)
    }
}

/// How many choices ended for each reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FinishReasons {
    counts: [u32; FinishReason::ALL.len()],
}

impl FinishReasons {
    /// So many choices are told word for word.
    pub const MOST_WORDS: usize = 16;

    /// How many choices ended for this reason.
    pub fn count(&self, reason: FinishReason) -> u32 {
        self.counts
            .get(reason as usize)
            .copied()
            .unwrap_or_default()
    }

    /// The reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (FinishReason, u32)> {
        FinishReason::ALL
            .into_iter()
            .zip(self.counts)
            .filter(|(_, count)| *count > 0)
    }

    /// One choice that ended for this reason, or none.
    pub(super) fn of(reason: Option<FinishReason>) -> FinishReasons {
        let mut reasons = FinishReasons::default();
        if let Some(reason) = reason {
            reasons.push(reason);
        }
        reasons
    }

    /// A word for each choice that ended, at most [`FinishReasons::MOST_WORDS`]: a caller may ask for any number.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        self.iter()
            .flat_map(|(reason, count)| (0..count).map(move |_| reason.label()))
            .take(FinishReasons::MOST_WORDS)
    }

    pub(super) fn push(&mut self, reason: FinishReason) {
        if let Some(count) = self.counts.get_mut(reason as usize) {
            *count = count.saturating_add(1);
        }
    }

    pub(super) fn add(&mut self, other: &FinishReasons) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
    }
}
