//! The meter on answers written by hand, and on recorded ones.

mod any_dialect;
mod checks;
mod ends;
mod infer_stream;
mod media;
mod messages;
mod native;
mod recorded;
mod responses;
mod tokens;
mod triton;
mod usage_forms;
mod whole;

use super::*;

const LIMIT: usize = 1 << 20;

fn ms(millis: u64) -> Offset {
    Offset::from_millis(millis)
}

/// The figures of a chat stream, fed in pieces of each of some sizes; they must not depend on it.
fn stream(dialect: Dialect, n_is_one: bool, body: &str) -> Figures {
    let run = |step: usize| {
        let mut meter = Meter::stream(dialect, n_is_one, LIMIT);
        for piece in body.as_bytes().chunks(step) {
            meter.feed(ms(7), piece);
        }
        meter.finish()
    };
    let whole = run(body.len().max(1));
    for step in [1, 2, 3, 5, 64] {
        assert_eq!(run(step), whole, "{body:?} by {step}");
    }
    whole
}

fn chat(body: &str) -> Figures {
    stream(Dialect::Chat, true, body)
}

fn completions(body: &str) -> Figures {
    stream(Dialect::Completions, true, body)
}

fn whole(body: &str) -> Figures {
    whole_of(Dialect::Chat, body)
}

/// The figures of a plain answer, which must not depend on its cutting either.
fn whole_of(dialect: Dialect, body: &str) -> Figures {
    let run = |step: usize, limit: usize| {
        let mut meter = Meter::whole(dialect, true, limit);
        for piece in body.as_bytes().chunks(step) {
            assert_eq!(meter.feed(ms(7), piece), Fed::default());
        }
        meter.finish()
    };
    let whole = run(body.len().max(1), LIMIT);
    for step in [1, 2, 3, 5, 64] {
        assert_eq!(run(step, LIMIT), whole, "{body:?} by {step}");
    }
    whole
}

/// One chat event with this delta.
fn delta(delta: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n")
}

fn usage(prompt: u64, completion: u64) -> Usage {
    Usage {
        prompt: Some(prompt),
        completion: Some(completion),
        ..Usage::default()
    }
}
