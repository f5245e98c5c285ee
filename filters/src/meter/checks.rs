//! Whether what an answer says is JSON where JSON was asked for, and whether the arguments of its tool calls are.
//!
//! In: pieces of visible text and of arguments, each with its place. Out: two verdicts. No text is held, only where each
//! stands in JSON's grammar; so many texts and calls are told apart and no more. What cannot be judged is absent: what was
//! not asked, what is cut off, and what is told apart no more.

use crate::json::{Check, Text, Verdict};

/// What is to be judged of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Its visible text should be JSON.
    pub json: bool,
    /// It may call tools, with arguments in JSON.
    pub tools: bool,
}

/// The texts and calls of one answer.
#[derive(Debug)]
pub(super) struct Checks {
    wanted: Wanted,
    is_whole: bool,
    // texts.len() <= MOST_TEXTS
    texts: Vec<(u64, Check)>,
    // calls.len() <= MOST_CALLS; a choice, a call of it
    calls: Vec<((u64, u64), Check)>,
    // Some text or call is not among them.
    lost_text: bool,
    lost_call: bool,
    // What was whole and has made room for another of the same place.
    whole_call: bool,
    // Another came to the same place and the one before was no JSON.
    broken_call: bool,
}

const MOST_TEXTS: usize = 8;
const MOST_CALLS: usize = 16;

impl Checks {
    /// `is_whole`: the answer is no stream.
    pub(super) fn new(wanted: Wanted, is_whole: bool) -> Checks {
        Checks {
            wanted,
            is_whole,
            texts: Vec::new(),
            calls: Vec::new(),
            lost_text: false,
            lost_call: false,
            whole_call: false,
            broken_call: false,
        }
    }

    /// A piece of the visible text of a choice.
    pub(super) fn text(&mut self, choice: u64, piece: Text<'_>) {
        if !self.wanted.json {
            return;
        }
        match at(&mut self.texts, choice, MOST_TEXTS) {
            Some(check) => feed(check, piece),
            None => self.lost_text = true,
        }
    }

    /// Whether what is read is a whole answer.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// There is text that cannot be judged.
    pub(super) fn lose_text(&mut self) {
        self.lost_text = true;
    }

    /// A tool call begins. Servers give several calls one place, so one that is whole is over when the next begins there.
    pub(super) fn begin(&mut self, choice: u64, call: u64) {
        if !self.wanted.tools {
            return;
        }
        let mut calls = self.calls.iter_mut();
        let Some((_, check)) = calls.find(|(key, _)| *key == (choice, call)) else {
            return;
        };
        match judge(check) {
            Some(true) => self.whole_call = true,
            Some(false) => self.broken_call = true,
            None => return,
        }
        *check = Check::default();
    }

    /// A piece of the arguments of a tool call.
    pub(super) fn arguments(&mut self, choice: u64, call: u64, piece: Text<'_>) {
        if !self.wanted.tools {
            return;
        }
        match at(&mut self.calls, (choice, call), MOST_CALLS) {
            Some(check) => feed(check, piece),
            None => self.lost_call = true,
        }
    }

    /// A tool call whose arguments stand in the answer as JSON, not as a text that holds it.
    pub(super) fn whole_call(&mut self, is_object: bool) {
        if !self.wanted.tools {
            return;
        }
        self.whole_call |= is_object;
        self.broken_call |= !is_object;
    }

    /// Whether the visible text of every choice is one JSON value. `is_over`: no more of it was to come.
    pub(super) fn json_ok(&self, is_over: bool) -> Option<bool> {
        if !self.wanted.json {
            return None;
        }
        let calls = !self.calls.is_empty() || self.whole_call || self.broken_call;
        if self.texts.is_empty() {
            // A call may stand in place of the text.
            return (is_over && !calls && !self.lost_text).then_some(false);
        }
        let verdicts = self.texts.iter().map(|(_, check)| match check.verdict() {
            Verdict::Whole => Some(true),
            Verdict::Broken => Some(false),
            Verdict::Unfinished => is_over.then_some(false),
            Verdict::Empty if calls => Some(true),
            Verdict::Empty => is_over.then_some(false),
            Verdict::TooDeep => None,
        });
        all(verdicts, self.lost_text)
    }

    /// Whether the arguments of every tool call are one JSON object; nothing at all stands for none.
    pub(super) fn tool_arguments_ok(&self, is_over: bool) -> Option<bool> {
        let open = self
            .calls
            .iter()
            .filter_map(|(_, check)| match check.verdict() {
                Verdict::Empty => None,
                Verdict::Unfinished if is_over => Some(Some(false)),
                Verdict::Unfinished | Verdict::Whole | Verdict::Broken | Verdict::TooDeep => {
                    Some(judge(check))
                }
            });
        let mut verdicts: Vec<Option<bool>> = open.collect();
        verdicts.extend(self.whole_call.then_some(Some(true)));
        verdicts.extend(self.broken_call.then_some(Some(false)));
        if verdicts.is_empty() {
            return None;
        }
        all(verdicts.into_iter(), self.lost_call)
    }
}

/// What is known of arguments already.
fn judge(check: &Check) -> Option<bool> {
    match check.verdict() {
        Verdict::Whole => Some(check.is_object()),
        Verdict::Broken => Some(false),
        Verdict::Empty | Verdict::Unfinished | Verdict::TooDeep => None,
    }
}

/// One that is false makes all false, whatever is not known of others.
fn all(verdicts: impl Iterator<Item = Option<bool>>, lost: bool) -> Option<bool> {
    let mut found = (!lost).then_some(true);
    for verdict in verdicts {
        match verdict {
            Some(true) => {}
            Some(false) => return Some(false),
            None => found = None,
        }
    }
    found
}

fn at<K: PartialEq>(checks: &mut Vec<(K, Check)>, key: K, most: usize) -> Option<&mut Check> {
    let place = match checks.iter().position(|(other, _)| *other == key) {
        Some(place) => place,
        None if checks.len() == most => return None,
        None => {
            checks.push((key, Check::default()));
            checks.len() - 1
        }
    };
    checks.get_mut(place).map(|(_, check)| check)
}

/// Feeds a text as it reads. What is no ASCII is one thing to JSON's grammar, so half a surrogate pair will do.
fn feed(check: &mut Check, piece: Text<'_>) {
    match piece.plain() {
        Some(bytes) => check.feed(bytes),
        None => piece.each_byte(|byte| check.byte(byte)),
    }
}
