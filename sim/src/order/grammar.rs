//! Reads the grammar of orders.
//!
//! In: the text of a header or of a setting. Out: an [`Order`], or a message that says what is allowed. Never ignores a
//! word: one that would do nothing is refused.

use std::str::FromStr;
use std::time::Duration;

use super::{How, Instead, Order};
use crate::delay::{DelayError, duration};
use crate::tokens::TokensError;

/// Why a text is not an order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// Not in the grammar.
    #[error("no misbehaviour is written {0:?}; {ALLOWED}")]
    Unknown(String),
    /// A number out of its bounds.
    #[error("{key} takes a whole number from {min} to {max}, found {found:?}")]
    Number {
        /// Of which word.
        key: String,
        /// The least allowed.
        min: String,
        /// The most allowed.
        max: String,
        /// What stood there.
        found: String,
    },
    /// Does nothing without another word.
    #[error("{0} needs a word beside it, such as {1:?}")]
    Alone(&'static str, &'static str),
    /// Two words that cannot both be done.
    #[error(
        "only one of reset, close, garbage, hang, hang_head, early, status and not_sse can be done, found two in {0:?}"
    )]
    Two(String),
    /// A delay that is none.
    #[error(transparent)]
    Delay(#[from] DelayError),
    /// A number of tokens that is none.
    #[error(transparent)]
    Tokens(#[from] TokensError),
}

impl FromStr for Order {
    type Err = OrderError;

    fn from_str(text: &str) -> Result<Order, OrderError> {
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
            if !(given.instead(key, value)? || given.read(&mut order, key, value)?) {
                return Err(OrderError::Unknown(word.to_owned()));
            }
        }
        given.settle(order, text)
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
    /// Reads a word that stands for an answer; false when it is none.
    fn instead(&mut self, key: &str, value: Option<&str>) -> Result<bool, OrderError> {
        self.instead.push(match (key, value) {
            ("reset", None) => Instead::Reset,
            ("close", None) => Instead::Close,
            ("garbage", None) => Instead::Garbage,
            ("hang", None) => Instead::Hang,
            ("hang_head", None) => Instead::HangHead,
            ("not_sse", None) => Instead::NotSse,
            ("early", Some(value)) => Instead::Early(number(key, value, 400, 599)?),
            ("status", Some(value)) => Instead::Status {
                status: number(key, value, 200, 599)?,
                retry_after: None,
            },
            _ => return Ok(false),
        });
        Ok(true)
    }

    /// Reads any other word; false when there is no such word.
    fn read(
        &mut self,
        order: &mut Order,
        key: &str,
        value: Option<&str>,
    ) -> Result<bool, OrderError> {
        match (key, value) {
            ("retry_after", Some(value)) => {
                self.retry_after = Some(number(key, value, 0, u32::MAX)?)
            }
            ("wait", Some(value)) => order.wait = value.parse()?,
            ("cut", Some(value)) => order.cut = Some((number(key, value, 0, u64::MAX)?, How::Fin)),
            ("how", Some("fin")) => self.how = Some(How::Fin),
            ("how", Some("rst")) => self.how = Some(How::Rst),
            ("stall", Some(value)) => order.stall = Some((number(key, value, 0, u64::MAX)?, None)),
            ("for", Some(value)) => self.length = Some(duration(value)?),
            ("error", Some(value)) => order.error = Some(number(key, value, 0, u64::MAX)?),
            ("no_done", None) => order.no_done = true,
            ("gzip", None) => order.gzip = true,
            ("1xx", Some("100")) => order.interim = Some(100),
            ("1xx", Some("102")) => order.interim = Some(102),
            ("1xx", Some("103")) => order.interim = Some(103),
            ("huge_event", Some(value)) => {
                order.huge_event = Some(number(key, value, 1, MAX_EVENT)?)
            }
            ("comments", Some(value)) => order.comments = number(key, value, 0, MAX_COMMENTS)?,
            ("reasoning", Some(value)) => order.reasoning = number(key, value, 0, u64::MAX)?,
            ("length", None) => order.length = true,
            ("close_after", None) => order.close_after = true,
            ("greeting", Some(value)) => order.greeting = number(key, value, 1, MAX_EVENT)?,
            ("tokens", Some(value)) => order.tokens = Some(value.parse()?),
            ("ttft", Some(value)) => order.ttft = Some(value.parse()?),
            ("itl", Some(value)) => order.inter_token = Some(value.parse()?),
            ("tokens_per_event", Some(value)) => {
                order.tokens_per_event = Some(number(key, value, 1, MAX_PER_EVENT)?)
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Joins the words that only mean something with another one; alone they are refused, since they would do nothing.
    fn settle(self, mut order: Order, text: &str) -> Result<Order, OrderError> {
        if self.instead.len() > 1 {
            return Err(OrderError::Two(text.to_owned()));
        }
        order.instead = self.instead.into_iter().next();
        if let Some(seconds) = self.retry_after {
            let Some(Instead::Status { retry_after, .. }) = &mut order.instead else {
                return Err(OrderError::Alone("retry_after", "status=503;retry_after=1"));
            };
            *retry_after = Some(seconds);
        }
        if let Some(how) = self.how {
            order
                .cut
                .as_mut()
                .ok_or(OrderError::Alone("how", "cut=3;how=rst"))?
                .1 = how;
        }
        if let Some(length) = self.length {
            order
                .stall
                .as_mut()
                .ok_or(OrderError::Alone("for", "stall=3;for=10s"))?
                .1 = Some(length);
        }
        Ok(order)
    }
}

/// A number from `min` to `max`.
fn number<N>(key: &str, value: &str, min: N, max: N) -> Result<N, OrderError>
where
    N: FromStr + PartialOrd + std::fmt::Display,
{
    value
        .parse()
        .ok()
        .filter(|number| *number >= min && *number <= max)
        .ok_or_else(|| OrderError::Number {
            key: key.to_owned(),
            min: min.to_string(),
            max: max.to_string(),
            found: value.to_owned(),
        })
}

/// 256 MiB: more than any reader should hold, little enough for a test machine.
const MAX_EVENT: usize = 256 << 20;
const MAX_COMMENTS: u32 = 10_000;
const MAX_PER_EVENT: usize = 1_000_000;

const ALLOWED: &str = "allowed: reset, close, garbage, hang, hang_head, early=STATUS, status=STATUS, retry_after=SECONDS, \
    not_sse, wait=DELAY, cut=N, how=fin|rst, stall=N, for=DURATION, error=N, no_done, gzip, 1xx=100|102|103, huge_event=BYTES, \
    comments=N, reasoning=N, length, close_after, greeting=BYTES, tokens=N, ttft=DELAY, itl=DELAY, tokens_per_event=N";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay::Delay;
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
        check(
            "wait=1s",
            Order {
                wait: Delay::Fixed(Duration::from_secs(1)),
                ..none()
            },
        );
        check("garbage", instead(Instead::Garbage));
        check("hang", instead(Instead::Hang));
        check("hang_head", instead(Instead::HangHead));
        check("not_sse", instead(Instead::NotSse));
        check(
            "greeting=5",
            Order {
                greeting: 5,
                ..none()
            },
        );
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
            "status=500;reset",
        ] {
            assert!(text.parse::<Order>().is_err(), "{text:?}");
        }
    }
}
