//! An answer as it unfolds: which tokens come, in which steps, after which waits.
//!
//! In: a call, the settings, an order, the request's number. Out: steps, each with the deltas that leave together.
//! Never looks at a clock: waits are values. A greedy call's text and length follow from its prompt alone, so that two
//! engines with one seed answer it alike; any other call's from its number too.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::SmallRng;

use crate::call::{Call, MAX_MODEL_LEN};
use crate::chance::generator;
use crate::delay::Delay;
use crate::order::Order;
use crate::settings::Settings;

/// An iterator over the steps of one answer.
pub(crate) struct Story {
    choices: Vec<Choice>,
    pace: SmallRng,
    ttft: Delay,
    inter_token: Delay,
    tokens_per_event: u64,
    reasoning: u64,
    huge: Option<usize>,
    begun: bool,
}

struct Choice {
    index: usize,
    left: u64,
    finish: Finish,
    text: SmallRng,
    events: u64,
}

/// What one step of the engine gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Since the step before, or since the request was read.
    pub(crate) wait: Duration,
    /// One a choice that is not finished, by index.
    pub(crate) deltas: Vec<Delta>,
}

/// What one step adds to one choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delta {
    pub(crate) index: usize,
    pub(crate) text: String,
    pub(crate) reasoning: bool,
    pub(crate) tokens: u64,
    pub(crate) finish: Option<Finish>,
}

/// Why a choice ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    Stop,
    Length,
}

impl Story {
    pub(crate) fn new(call: &Call, settings: &Settings, order: &Order, number: u64) -> Story {
        let tokens = order.tokens.unwrap_or(settings.tokens);
        let cap = call.max_tokens.unwrap_or(MAX_MODEL_LEN);
        let choice = |index: usize| {
            let prompt = call
                .prompts
                .get(index / call.n)
                .map_or(&[][..], |prompt| &prompt.key);
            let key = match call.greedy {
                Some(seed) => [
                    &seed.to_le_bytes()[..],
                    &((index % call.n) as u64).to_le_bytes(),
                    prompt,
                ]
                .concat(),
                None => [number.to_le_bytes(), (index as u64).to_le_bytes()].concat(),
            };
            let wished = tokens.draw(&mut generator(settings.seed, "tokens", &key));
            let (left, finish) = match call.max_tokens {
                Some(max) if wished >= max || call.ignore_eos => (max, Finish::Length),
                _ => (wished.min(cap), Finish::Stop),
            };
            Choice {
                index,
                left,
                finish,
                text: generator(settings.seed, "text", &key),
                events: 0,
            }
        };
        Story {
            choices: (0..call.prompts.len() * call.n).map(choice).collect(),
            pace: generator(settings.seed, "pace", &number.to_le_bytes()),
            ttft: order.ttft.unwrap_or(settings.ttft),
            inter_token: order.inter_token.unwrap_or(settings.inter_token),
            tokens_per_event: order
                .tokens_per_event
                .unwrap_or(settings.tokens_per_event)
                .max(1) as u64,
            reasoning: order.reasoning,
            huge: order.huge_event,
            begun: false,
        }
    }

    /// How many choices there are.
    pub(crate) fn choices(&self) -> usize {
        self.choices.len()
    }
}

impl Iterator for Story {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.choices.iter().all(|choice| choice.left == 0) {
            return None;
        }
        let wait = if self.begun {
            self.inter_token
        } else {
            self.ttft
        }
        .draw(&mut self.pace);
        let most = if self.begun { self.tokens_per_event } else { 1 };
        self.begun = true;
        let mut deltas = Vec::with_capacity(self.choices.len());
        for choice in self.choices.iter_mut().filter(|choice| choice.left > 0) {
            let tokens = choice.left.min(most);
            choice.left -= tokens;
            let text = match self.huge.take() {
                Some(bytes) => "x".repeat(bytes),
                None => (0..tokens)
                    .map(|_| WORDS[choice.text.random_range(0..WORDS.len())])
                    .collect(),
            };
            choice.events += 1;
            deltas.push(Delta {
                index: choice.index,
                text,
                reasoning: choice.events <= self.reasoning,
                tokens,
                finish: (choice.left == 0).then_some(choice.finish),
            });
        }
        Some(Step { wait, deltas })
    }
}

/// What tokens look like: words, pieces, and what parsers stumble on.
#[rustfmt::skip]
const WORDS: [&str; 48] = [
    " the", " a", " goose", " flies", " south", " over", " grey", " water", " and", " every", " token", " waits",
    " for", " its", " turn", " in", " line", ".", ",", " so", " we", " count", " them", " one", " by", "ing", "ed",
    "lag", " 42", " 7", " {\"", "\"}", "\n", "\\", " \"quoted\"", " data:", " é", " Übung", " 東京", " 灰雁", " 🪿",
    "\u{2028}", "\t", " [DONE]", " null", ":", " end", " of",
];

#[cfg(test)]
mod tests;
