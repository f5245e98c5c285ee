//! Plain answers of one JSON value.

use super::*;

#[test]
fn a_whole_answer_is_read_at_its_end() {
    let body = r#"{"id":"1","model":"m","choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"},{"index":1,"message":{"content":""},"finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":9}}"#;
    let figures = whole(body);
    assert_eq!(figures.usage, Some(usage(5, 9)));
    assert_eq!(figures.model.as_deref(), Some("m"));
    assert_eq!(
        figures.finish_reasons.iter().collect::<Vec<_>>(),
        [(FinishReason::Stop, 1), (FinishReason::Length, 1)]
    );
    assert_eq!(
        (figures.terminated, figures.unmetered, figures.first_token),
        (true, None, None)
    );
    assert_eq!(whole(&format!(" \n{body}\r\n ")), figures);

    let check = |body: &str, unmetered| {
        let figures = whole(body);
        assert_eq!(
            (figures.unmetered, figures.terminated, figures.usage),
            (Some(unmetered), false, None),
            "{body}"
        );
    };
    check("", Unmetered::Unparsable);
    check("[]", Unmetered::Unparsable);
    check(body.split_at(100).0, Unmetered::Unparsable);
    check(&format!("{body}{body}"), Unmetered::Unparsable);
    check(&format!("{body} x"), Unmetered::Unparsable);
    check(&" ".repeat(LIMIT + 1), Unmetered::TooLarge);

    let error = whole(r#"{"error":"secret"}"#);
    assert_eq!(
        (error.error, error.terminated),
        (Some(InStreamError::default()), true)
    );
}

#[test]
fn a_whole_answer_past_the_limit_is_let_go() {
    let body = format!(r#"{{"x":"{}"}}"#, "a".repeat(LIMIT));
    for step in [1000, body.len()] {
        let mut meter = Meter::whole(Dialect::Chat, true, LIMIT);
        for piece in body.as_bytes().chunks(step) {
            meter.feed(ms(1), piece);
        }
        assert_eq!(meter.finish().unmetered, Some(Unmetered::TooLarge));
    }
}

#[test]
fn something_may_follow_a_whole_answer_only_if_it_is_white_space() {
    let body = br#"{"usage":{"prompt_tokens":5,"completion_tokens":9}}"#;
    let mut meter = Meter::whole(Dialect::Chat, true, LIMIT);
    meter.feed(ms(1), body);
    meter.feed(ms(2), b" \r\n");
    assert_eq!(meter.finish().usage, Some(usage(5, 9)));
    let mut meter = Meter::whole(Dialect::Chat, true, LIMIT);
    meter.feed(ms(1), body);
    meter.feed(ms(2), b"}");
    let figures = meter.finish();
    assert_eq!(
        (figures.usage, figures.unmetered),
        (None, Some(Unmetered::Unparsable))
    );
}

#[test]
fn the_limit_counts_every_byte_in_any_cutting() {
    let body = br#"{"usage":{"prompt_tokens":5}}"#;
    let run = |pieces: &[&[u8]]| {
        let mut meter = Meter::whole(Dialect::Chat, true, 40);
        for piece in pieces {
            meter.feed(ms(1), piece);
        }
        meter.finish()
    };
    let space = &[b' '; 40][..];
    let whole = [&body[..], space].concat();
    assert_eq!(run(&[&whole]).unmetered, Some(Unmetered::TooLarge));
    assert_eq!(run(&[body, space]), run(&[&whole]));
    assert_eq!(run(&[body, b"x", space]), run(&[&whole]));
    assert_eq!(run(&[body, b" \n"]).unmetered, None);
    // A form feed is white space to some, but not to JSON.
    assert_eq!(run(&[body, b"\x0c"]).unmetered, Some(Unmetered::Unparsable));
}
