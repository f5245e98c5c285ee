//! How answers unfold.

use super::*;
use crate::call::{Prompt, Route};

fn call() -> Call {
    Call {
        route: Route::Chat,
        prompts: vec![Prompt {
            tokens: 1,
            key: b"hi".to_vec(),
        }],
        n: 1,
        stream: true,
        max_tokens: None,
        ignore_eos: false,
        include_usage: false,
        continuous_usage: false,
        greedy: None,
    }
}

fn story(call: &Call, order: &str, number: u64) -> Vec<Step> {
    Story::new(call, &Settings::default(), &order.parse().unwrap(), number).collect()
}

fn tokens(steps: &[Step]) -> Vec<u64> {
    steps.iter().map(|step| step.deltas[0].tokens).collect()
}

#[test]
fn the_first_token_goes_alone_and_the_others_by_the_interval() {
    assert_eq!(
        tokens(&story(&call(), "tokens=8;tokens_per_event=3", 1)),
        [1, 3, 3, 1]
    );
}

#[test]
fn max_tokens_ends_an_answer_by_length_and_its_own_end_by_stop() {
    let check = |call: Call, order, total: u64, finish| {
        let steps = story(&call, order, 1);
        assert_eq!(tokens(&steps).iter().sum::<u64>(), total);
        assert_eq!(steps.last().unwrap().deltas[0].finish, Some(finish));
    };
    check(
        Call {
            max_tokens: Some(3),
            ..call()
        },
        "tokens=5",
        3,
        Finish::Length,
    );
    check(
        Call {
            max_tokens: Some(9),
            ..call()
        },
        "tokens=5",
        5,
        Finish::Stop,
    );
    check(
        Call {
            max_tokens: Some(9),
            ignore_eos: true,
            ..call()
        },
        "tokens=5",
        9,
        Finish::Length,
    );
    check(call(), "tokens=5", 5, Finish::Stop);
}

#[test]
fn choices_take_turns_and_end_each_on_its_own() {
    let call = Call { n: 3, ..call() };
    let steps = story(&call, "tokens=1..20", 4);
    let last = steps
        .iter()
        .position(|step| step.deltas.iter().any(|delta| delta.finish.is_some()))
        .unwrap();
    assert!(
        steps[..=last]
            .iter()
            .all(|step| step.deltas.iter().map(|delta| delta.index).eq(0..3))
    );
    assert_eq!(
        steps
            .iter()
            .flat_map(|step| &step.deltas)
            .filter(|delta| delta.finish.is_some())
            .count(),
        3
    );
}

#[test]
fn a_greedy_text_follows_from_the_prompt_alone() {
    let text = |call: &Call, number| story(call, "tokens=5..50", number);
    let greedy = Call {
        greedy: Some(0),
        ..call()
    };
    assert_eq!(text(&greedy, 1), text(&greedy, 2));
    assert_ne!(text(&call(), 1), text(&call(), 2));
    assert_eq!(text(&call(), 1), text(&call(), 1));
    assert_ne!(
        text(&greedy, 1),
        text(
            &Call {
                greedy: Some(7),
                ..call()
            },
            1
        )
    );
}
