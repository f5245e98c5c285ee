//! What the models say.
//!
//! In: a model and its inputs. Out: replies, each with the wait before it. Lazy, so that a long answer costs no memory;
//! chance comes from the seed alone.

use std::time::Duration;

use rand::rngs::SmallRng;

use super::{Data, Fault, Kind, Model, Tensor};
use crate::chance::generator;
use crate::delay::Delay;
use crate::order::Order;
use crate::settings::Settings;

/// One response of a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reply {
    /// Since the one before, or since the request was read.
    pub(crate) wait: Duration,
    pub(crate) said: Result<Vec<Tensor>, Fault>,
}

/// The responses to one request.
#[derive(Debug)]
pub(crate) enum Replies {
    Once(Option<Reply>),
    Words(Words),
}

/// The responses of `words`.
#[derive(Debug)]
pub(crate) struct Words {
    prompt: String,
    count: u32,
    stream: bool,
    delay: Option<Duration>,
    fail_after: Option<u32>,
    next: u32,
    settings: Pace,
}

/// The waits where the request does not ask for one itself.
#[derive(Debug)]
struct Pace {
    draws: SmallRng,
    first: Delay,
    further: Delay,
}

impl Pace {
    fn draw(&mut self, first: bool) -> Duration {
        if first { self.first } else { self.further }.draw(&mut self.draws)
    }
}

/// Words of an answer, unless the request says how many.
const MOST: u32 = 8;

impl Replies {
    /// What `model` says to `inputs`, which it takes; `turn` is the number of the inference request.
    pub(crate) fn new(
        model: Model,
        inputs: &[Tensor],
        settings: &Settings,
        order: &Order,
        turn: u64,
    ) -> Replies {
        let mut pace = Pace {
            draws: generator(settings.seed, "pace", &turn.to_le_bytes()),
            first: order.ttft.unwrap_or(settings.ttft),
            further: order.inter_token.unwrap_or(settings.inter_token),
        };
        let number = |name| {
            let found = inputs.iter().find(|input| input.name == name)?;
            found
                .data
                .number()
                .and_then(|number| u32::try_from(number).ok())
        };
        let once = |said, pace: &mut Pace| {
            let wait = pace.draw(true);
            Replies::Once(Some(Reply { wait, said }))
        };
        match model {
            Model::Affine => once(Ok(affine(inputs)), &mut pace),
            Model::Boom => once(
                Err(Fault::new(Kind::Internal, "made-up failure")),
                &mut pace,
            ),
            Model::Words => {
                let ordered = order.tokens.map(|tokens| {
                    let mut chance = generator(settings.seed, "tokens", &turn.to_le_bytes());
                    u32::try_from(tokens.draw(&mut chance)).unwrap_or(u32::MAX)
                });
                let prompt = inputs.iter().find(|input| input.name == "text_input");
                Replies::Words(Words {
                    prompt: prompt.map_or(String::new(), |input| input.data.text()),
                    count: number("max_tokens").or(ordered).unwrap_or(MOST),
                    stream: number("stream") != Some(0),
                    delay: number("delay_ms").map(|ms| Duration::from_millis(ms.into())),
                    fail_after: number("fail_after"),
                    next: 0,
                    settings: pace,
                })
            }
        }
    }
}

fn affine(inputs: &[Tensor]) -> Vec<Tensor> {
    inputs
        .iter()
        .map(|input| Tensor {
            name: "Y".into(),
            shape: input.shape.clone(),
            data: input.data.affine(),
        })
        .collect()
}

impl Words {
    fn wait(&mut self) -> Duration {
        match self.delay {
            Some(delay) => delay,
            None => self.settings.draw(self.next == 0),
        }
    }

    fn word(index: u32) -> String {
        let index = usize::try_from(index).unwrap_or_default() % SENTENCE.len();
        format!("{} ", SENTENCE[index])
    }

    fn said(text: String, index: u32) -> Vec<Tensor> {
        let tensor = |name: &str, data| Tensor {
            name: name.into(),
            shape: vec![1],
            data,
        };
        vec![
            tensor("text_output", Data::Bytes(vec![text.into_bytes()])),
            tensor(
                "index",
                Data::Int32(vec![i32::try_from(index).unwrap_or(i32::MAX)]),
            ),
        ]
    }

    fn one(&mut self) -> Option<Reply> {
        let mut waited = Duration::ZERO;
        while self.next < self.count {
            waited += self.wait();
            let index = self.next;
            self.next += 1;
            if self.fail_after == Some(index) {
                self.next = u32::MAX;
                let message = "made-up failure in the middle of a stream";
                return Some(Reply {
                    wait: waited,
                    said: Err(Fault::new(Kind::Internal, message)),
                });
            }
            if self.stream {
                return Some(Reply {
                    wait: waited,
                    said: Ok(Words::said(Words::word(index), index)),
                });
            }
        }
        if self.stream || self.next == u32::MAX {
            return None;
        }
        self.next = u32::MAX;
        let words: String = (0..self.count).map(Words::word).collect();
        Some(Reply {
            wait: waited,
            said: Ok(Words::said(format!("{} {words}", self.prompt), self.count)),
        })
    }
}

impl Iterator for Replies {
    type Item = Reply;

    fn next(&mut self) -> Option<Reply> {
        match self {
            Replies::Once(reply) => reply.take(),
            Replies::Words(words) => words.one(),
        }
    }
}

/// What `words` says, again and again.
#[rustfmt::skip]
const SENTENCE: [&str; 22] = [
    "the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "while", "Zoë", "counts", "“seven”", "jars",
    "of", "蜂蜜", "and", "one", "🐝", "\"quote\"", "\\", "slash",
];
