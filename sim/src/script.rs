//! Answers given byte for byte: scripted pieces, pauses and ends.
//!
//! In: a [`Script`]. Out: each piece in a write of its own, so that it leaves as a segment of its own as far as the
//! kernel allows. Never adds or changes a byte.

use std::time::Duration;

use tokio::time::Instant;

use crate::body::{self, Unread};
use crate::order::How;
use crate::request::{Head, LONGEST_BODY};
use crate::wire::{Gone, Wire};

/// What is done in answer to one request. A script that does not end the connection leaves it open for the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script(pub Vec<Step>);

/// One step of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Writes these bytes.
    Bytes(Vec<u8>),
    /// Writes nothing for so long.
    Pause(Duration),
    /// Waits until the client has sent one more byte.
    WaitForByte,
    /// Waits for another whole request on the same connection; it is not counted.
    ReadRequest,
    /// Waits until the client has gone.
    WaitForClose,
    /// Ends the connection in order.
    Fin,
    /// Resets the connection.
    Rst,
}

/// Where a recording is cut into pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// Pieces of these sizes, as they were read when it was recorded; what is left over is one more.
    AsIs(Vec<usize>),
    /// All in one.
    Whole,
    /// Each byte alone.
    ByteByByte,
    /// Before each of these offsets, in rising order; offsets outside the recording do nothing.
    At(Vec<usize>),
}

impl Script {
    /// Plays a recorded answer, head and all, cut into pieces.
    pub fn capture(raw: &[u8], cuts: Cuts) -> Script {
        let offsets: Vec<usize> = match cuts {
            Cuts::Whole => Vec::new(),
            Cuts::ByteByByte => (1..raw.len()).collect(),
            Cuts::At(offsets) => offsets,
            Cuts::AsIs(sizes) => sizes
                .iter()
                .scan(0_usize, |end, size| {
                    *end = end.saturating_add(*size);
                    Some(*end)
                })
                .collect(),
        };
        let mut from = 0;
        let mut steps = Vec::new();
        for to in offsets.into_iter().chain([raw.len()]) {
            if let Some(piece) = raw.get(from..to).filter(|piece| !piece.is_empty()) {
                steps.push(Step::Bytes(piece.to_vec()));
                from = to;
            }
        }
        Script(steps)
    }

    /// The same script with one more step.
    #[must_use]
    pub fn then(mut self, step: Step) -> Script {
        self.0.push(step);
        self
    }

    /// The same script with a pause between any two pieces.
    #[must_use]
    pub fn paced(self, pause: Duration) -> Script {
        let mut steps: Vec<Step> = Vec::with_capacity(self.0.len() * 2);
        for step in self.0 {
            if matches!(
                (steps.last(), &step),
                (Some(Step::Bytes(_)), Step::Bytes(_))
            ) {
                steps.push(Step::Pause(pause));
            }
            steps.push(step);
        }
        Script(steps)
    }
}

/// Why a script stopped before its last step.
pub(crate) enum Stop {
    Gone,
    Ended(How),
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Stop {
        Stop::Gone
    }
}

pub(crate) async fn play(script: &Script, wire: &mut Wire) -> Result<(), Stop> {
    for step in &script.0 {
        match step {
            Step::Bytes(bytes) => wire.write(bytes).await?,
            Step::Pause(pause) => wire.until(Instant::now() + *pause).await?,
            Step::WaitForByte => wire.fill().await?,
            Step::ReadRequest => read_request(wire).await.map_err(|unread| match unread {
                Unread::Gone => Stop::Gone,
                // There is no telling where the next request would begin.
                Unread::Bad | Unread::TooLong => Stop::Ended(How::Fin),
            })?,
            Step::WaitForClose => return Err(wire.gone().await.into()),
            Step::Fin => return Err(Stop::Ended(How::Fin)),
            Step::Rst => return Err(Stop::Ended(How::Rst)),
        }
    }
    Ok(())
}

async fn read_request(wire: &mut Wire) -> Result<(), Unread> {
    let framing = Head::read(wire).await?.framing()?;
    body::read(wire, framing, LONGEST_BODY, &mut |_: &[u8]| {}).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(cuts: Cuts, expected: &[&str]) {
        let steps: Vec<Step> = expected
            .iter()
            .map(|piece| Step::Bytes(piece.as_bytes().to_vec()))
            .collect();
        assert_eq!(Script::capture(b"abcdef", cuts).0, steps);
    }

    #[test]
    fn a_recording_is_cut_where_it_is_told() {
        check(Cuts::Whole, &["abcdef"]);
        check(Cuts::ByteByByte, &["a", "b", "c", "d", "e", "f"]);
        check(Cuts::At(vec![2, 5]), &["ab", "cde", "f"]);
        check(Cuts::At(vec![0, 6, 9]), &["abcdef"]);
        check(Cuts::AsIs(vec![1, 2]), &["a", "bc", "def"]);
        check(Cuts::AsIs(vec![4, 2]), &["abcd", "ef"]);
        check(Cuts::AsIs(vec![9]), &["abcdef"]);
    }

    #[test]
    fn pauses_come_between_pieces_only() {
        let paced = Script::capture(b"ab", Cuts::ByteByByte)
            .then(Step::Fin)
            .paced(Duration::from_millis(1));
        let pause = Step::Pause(Duration::from_millis(1));
        assert_eq!(
            paced.0,
            [
                Step::Bytes(b"a".into()),
                pause,
                Step::Bytes(b"b".into()),
                Step::Fin
            ]
        );
    }

    proptest! {
        #[test]
        fn no_cutting_changes_a_byte(raw: Vec<u8>, at: Vec<usize>, sizes: Vec<usize>) {
            for cuts in [Cuts::At(at), Cuts::AsIs(sizes), Cuts::ByteByByte, Cuts::Whole] {
                let joined: Vec<u8> = Script::capture(&raw, cuts).0.into_iter().flat_map(|step| match step {
                    Step::Bytes(bytes) => bytes,
                    _ => Vec::new(),
                }).collect();
                prop_assert_eq!(&joined, &raw);
            }
        }
    }
}
