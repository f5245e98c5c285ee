//! Reads the grammar of orders.
//!
//! In: the text of a header or of a setting. Out: an [`Order`], or a message that says what is allowed. Never ignores a
//! word: one that would do nothing is refused.

use std::str::FromStr;
use std::time::Duration;

use super::{How, Instead, Order};
use crate::delay::duration;

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Order, String> {
        let mut order = Order::default();
        let mut given = Given::default();
        for word in text
            .split(';')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            let (key, value) = match word.split_once('=') {
                Some((key, value)) => (key.trim(), Some(value.trim())),
                None => (word, None),
            };
            given.read(&mut order, key, value)?;
        }
        given.settle(order)
    }
}

/// The words whose meaning depends on others, until all are read.
#[derive(Default)]
struct Given {
    instead: Vec<Instead>,
    retry_after: Option<u32>,
    how: Option<How>,
    length: Option<Duration>,
}

impl Given {
    fn read(&mut self, order: &mut Order, key: &str, value: Option<&str>) -> Result<(), String> {
        match (key, value) {
            ("reset", None) => self.instead.push(Instead::Reset),
            ("close", None) => self.instead.push(Instead::Close),
            ("garbage", None) => self.instead.push(Instead::Garbage),
            ("hang", None) => self.instead.push(Instead::Hang),
            ("hang_head", None) => self.instead.push(Instead::HangHead),
            ("not_sse", None) => self.instead.push(Instead::NotSse),
            ("early", Some(value)) => self
                .instead
                .push(Instead::Early(number(key, value, 400, 599)?)),
            ("status", Some(value)) => {
                let status = number(key, value, 200, 599)?;
                self.instead.push(Instead::Status {
                    status,
                    retry_after: None,
                });
            }
            ("retry_after", Some(value)) => {
                self.retry_after = Some(number(key, value, 0, u32::MAX)?)
            }
            ("cut", Some(value)) => order.cut = Some((number(key, value, 0, u64::MAX)?, How::Fin)),
            ("how", Some("fin")) => self.how = Some(How::Fin),
            ("how", Some("rst")) => self.how = Some(How::Rst),
            ("stall", Some(value)) => order.stall = Some((number(key, value, 0, u64::MAX)?, None)),
            ("for", Some(value)) => self.length = Some(duration(value)?),
            ("error", Some(value)) => order.error = Some(number(key, value, 0, u64::MAX)?),
            ("no_done", None) => order.no_done = true,
            ("gzip", None) => order.gzip = true,
            ("1xx", Some("100" | "102" | "103")) => {
                order.interim = Some(number(key, value.unwrap_or_default(), 100, 103)?)
            }
            ("huge_event", Some(value)) => {
                order.huge_event = Some(number(key, value, 1, MAX_EVENT)?)
            }
            ("comments", Some(value)) => order.comments = number(key, value, 0, MAX_COMMENTS)?,
            ("reasoning", Some(value)) => order.reasoning = number(key, value, 0, u64::MAX)?,
            ("length", None) => order.length = true,
            ("close_after", None) => order.close_after = true,
            ("tokens", Some(value)) => order.tokens = Some(value.parse()?),
            ("ttft", Some(value)) => order.ttft = Some(value.parse()?),
            ("itl", Some(value)) => order.inter_token = Some(value.parse()?),
            ("tokens_per_event", Some(value)) => {
                order.tokens_per_event = Some(number(key, value, 1, MAX_PER_EVENT)?)
            }
            (_, None) => return Err(format!("no misbehaviour is written {key:?}; {ALLOWED}")),
            (_, Some(value)) => {
                return Err(format!(
                    "no misbehaviour is written \"{key}={value}\"; {ALLOWED}"
                ));
            }
        }
        Ok(())
    }

    /// Joins the words that only mean something with another one; alone they are refused, since they would do nothing.
    fn settle(self, mut order: Order) -> Result<Order, String> {
        order.instead = self
            .instead
            .into_iter()
            .min_by_key(|instead| rank(*instead));
        if let Some(seconds) = self.retry_after {
            let Some(Instead::Status { retry_after, .. }) = &mut order.instead else {
                return Err(
                    "retry_after needs a status beside it, such as \"status=503;retry_after=1\""
                        .into(),
                );
            };
            *retry_after = Some(seconds);
        }
        if let Some(how) = self.how {
            order
                .cut
                .as_mut()
                .ok_or("how needs a cut beside it, such as \"cut=3;how=rst\"")?
                .1 = how;
        }
        if let Some(length) = self.length {
            order
                .stall
                .as_mut()
                .ok_or("for needs a stall beside it, such as \"stall=3;for=10s\"")?
                .1 = Some(length);
        }
        Ok(order)
    }
}

/// The place in the grammar's list: the lowest counts.
fn rank(instead: Instead) -> u8 {
    match instead {
        Instead::Reset => 0,
        Instead::Close => 1,
        Instead::Garbage => 2,
        Instead::Hang => 3,
        Instead::HangHead => 4,
        Instead::Early(_) => 5,
        Instead::Status { .. } => 6,
        Instead::NotSse => 7,
    }
}

/// A number from `min` to `max`.
fn number<N>(key: &str, value: &str, min: N, max: N) -> Result<N, String>
where
    N: FromStr + PartialOrd + std::fmt::Display,
{
    let allowed = || format!("{key} takes a whole number from {min} to {max}, found {value:?}");
    let number: N = value.parse().map_err(|_| allowed())?;
    if number < min || number > max {
        return Err(allowed());
    }
    Ok(number)
}

/// 256 MiB: more than any reader should hold, little enough for a test machine.
const MAX_EVENT: usize = 256 << 20;
const MAX_COMMENTS: u32 = 10_000;
const MAX_PER_EVENT: usize = 1_000_000;

const ALLOWED: &str = "allowed: reset, close, garbage, hang, hang_head, early=STATUS, status=STATUS, retry_after=SECONDS, \
    not_sse, cut=N, how=fin|rst, stall=N, for=DURATION, error=N, no_done, gzip, 1xx=100|102|103, huge_event=BYTES, \
    comments=N, reasoning=N, length, close_after, tokens=N, ttft=DELAY, itl=DELAY, tokens_per_event=N";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Tokens;

    fn check(text: &str, expected: Order) {
        assert_eq!(text.parse::<Order>().as_ref(), Ok(&expected), "{text:?}");
    }

    fn instead(instead: Instead) -> Order {
        Order {
            instead: Some(instead),
            ..Order::default()
        }
    }

    #[test]
    fn every_word_of_the_grammar_has_its_meaning() {
        let none = Order::default;
        check("", none());
        check("reset", instead(Instead::Reset));
        check("close", instead(Instead::Close));
        check("garbage", instead(Instead::Garbage));
        check("hang", instead(Instead::Hang));
        check("hang_head", instead(Instead::HangHead));
        check("not_sse", instead(Instead::NotSse));
        check("early=413", instead(Instead::Early(413)));
        check(
            "status=204",
            instead(Instead::Status {
                status: 204,
                retry_after: None,
            }),
        );
        check(
            " status=503 ; retry_after=1 ;",
            instead(Instead::Status {
                status: 503,
                retry_after: Some(1),
            }),
        );
        check(
            "cut=3",
            Order {
                cut: Some((3, How::Fin)),
                ..none()
            },
        );
        check(
            "how=rst;cut=3",
            Order {
                cut: Some((3, How::Rst)),
                ..none()
            },
        );
        check(
            "stall=0",
            Order {
                stall: Some((0, None)),
                ..none()
            },
        );
        check(
            "stall=2;for=10s",
            Order {
                stall: Some((2, Some(Duration::from_secs(10)))),
                ..none()
            },
        );
        check(
            "error=4",
            Order {
                error: Some(4),
                ..none()
            },
        );
        check(
            "no_done;gzip;length;close_after",
            Order {
                no_done: true,
                gzip: true,
                length: true,
                close_after: true,
                ..none()
            },
        );
        check(
            "1xx=103",
            Order {
                interim: Some(103),
                ..none()
            },
        );
        check(
            "huge_event=70000;comments=2;reasoning=3",
            Order {
                huge_event: Some(70_000),
                comments: 2,
                reasoning: 3,
                ..none()
            },
        );
        check(
            "tokens=5;ttft=50ms;itl=1ms..2ms;tokens_per_event=4",
            Order {
                tokens: Some(Tokens::fixed(5)),
                ttft: Some("50ms".parse().unwrap()),
                inter_token: Some("1ms..2ms".parse().unwrap()),
                tokens_per_event: Some(4),
                ..none()
            },
        );
    }

    #[test]
    fn of_two_words_for_one_place_the_earlier_in_the_list_counts() {
        check("status=500;reset", instead(Instead::Reset));
    }

    #[test]
    fn what_is_not_in_the_grammar_is_refused() {
        for text in [
            "status",
            "status=99",
            "status=600",
            "status=abc",
            "reset=1",
            "cut",
            "cut=-1",
            "how=rst",
            "for=1s",
            "retry_after=1",
            "how=soft;cut=1",
            "1xx=101",
            "tokens_per_event=0",
            "ttft=50",
            "nonsense",
            "early=200",
        ] {
            assert!(text.parse::<Order>().is_err(), "{text:?}");
        }
    }
}
