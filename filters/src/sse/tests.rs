use super::*;
use proptest::prelude::*;

/// The events of `bytes` fed in pieces of `step`, as `event|data|error`; the last is marked if finish gave it.
fn events(bytes: &[u8], step: usize, limit: usize) -> Vec<String> {
    let mut splitter = Splitter::new(limit);
    let mut found = Vec::new();
    let show = |event: Event<'_>| {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let parts = [text(event.event), text(event.data), text(event.error)];
        parts.join("|")
    };
    for piece in bytes.chunks(step) {
        splitter.feed(piece, |event| found.push(show(event)));
        assert!(splitter.held.len() <= limit, "holds more than its limit");
    }
    splitter.finish(|event| found.push(format!("{} at the end", show(event))));
    (0..splitter.skipped()).for_each(|_| found.push("skipped".into()));
    found
}

fn check(stream: &str, expected: &[&str]) {
    for step in 1..=stream.len().max(1) {
        assert_eq!(
            events(stream.as_bytes(), step, 1024),
            expected,
            "{stream:?} by {step}"
        );
    }
}

#[test]
fn a_blank_line_ends_an_event_whatever_the_line_ends() {
    check("data: a\n\ndata: b\n\n", &["|a|", "|b|"]);
    check("data: a\r\n\r\ndata: b\r\n\r\n", &["|a|", "|b|"]);
    check("data: a\r\rdata: b\r\r", &["|a|", "|b|"]);
    check("data: a\n\r\ndata: b\r\n\n", &["|a|", "|b|"]);
    check("data: a\r\n\rdata: b\n\n", &["|a|", "|b|"]);
    check("\n\n\r\n\rdata: a\n\n\n\n", &["|a|"]);
}

#[test]
fn one_space_after_the_colon_belongs_to_the_field() {
    check("data:a\n\n", &["|a|"]);
    check("data:  a\n\n", &["| a|"]);
    check("data: a: b\n\n", &["|a: b|"]);
    check("data:\ta\n\n", &["|\ta|"]);
}

#[test]
fn several_data_lines_are_joined_by_a_line_feed() {
    check("data: a\ndata: b\ndata:\n\n", &["|a\nb\n|"]);
    check("data: a\r\ndata: b\r\n\r\n", &["|a\nb|"]);
    check("data\n\n", &["||"]);
    check("data\ndata\n\n", &["|\n|"]);
}

#[test]
fn comments_and_other_fields_are_no_events() {
    check(": keep-alive\n\n", &[]);
    check(":\n", &[]);
    check(": a\n: b\n\ndata: x\n\n: c\n", &["|x|"]);
    check(": a\ndata: x\n: b\n\n", &["|x|"]);
    check("id: 1\nretry: 5\n\n", &[]);
    check("event: ping\n\n", &[]);
    check("event: e\nid: 1\ndata: x\n\n", &["e|x|"]);
    check("data: x\nevent: e\n\ndata: y\n\n", &["e|x|", "|y|"]);
    check("datum: x\n\n", &[]);
    check("Data: x\n\n", &[]);
    check(" data: x\n\n", &[]);
}

#[test]
fn an_error_field_is_given_out_though_the_standard_has_none() {
    check("error: {\"code\":500}\n\n", &["||{\"code\":500}"]);
    check("data: x\nerror: y\n\n", &["|x|y"]);
}

#[test]
fn a_byte_order_mark_counts_once_at_the_start() {
    check("\u{feff}data: a\n\n", &["|a|"]);
    check("\u{feff}\n\ndata: a\n\n", &["|a|"]);
    check("data: a\n\n\u{feff}data: b\n\n", &["|a|"]);
    check("\u{feff}\u{feff}data: a\n\n", &[]);
}

#[test]
fn only_line_feeds_and_carriage_returns_end_lines() {
    check(
        "data: a\u{2028}b\u{2029}c\u{85}d\n\n",
        &["|a\u{2028}b\u{2029}c\u{85}d|"],
    );
    check("data: a\u{b}b\u{c}c\0d\n\n", &["|a\u{b}b\u{c}c\0d|"]);
}

#[test]
fn an_event_without_its_blank_line_is_given_out_at_the_end() {
    check("data: a", &["|a| at the end"]);
    check("data: a\n", &["|a| at the end"]);
    check("data: a\r", &["|a| at the end"]);
    check("data: a\n\ndata: b\r\n", &["|a|", "|b| at the end"]);
    check(": comment", &[]);
    check("", &[]);
}

#[test]
fn an_event_past_the_limit_is_skipped_and_the_next_is_read() {
    let long = format!("data: {}\n\ndata: b\n\n", "a".repeat(100));
    for step in 1..=long.len() {
        assert_eq!(
            events(long.as_bytes(), step, 50),
            ["|b|", "skipped"],
            "by {step}"
        );
    }
    let open = format!("data: {}", "a".repeat(100));
    for step in 1..=open.len() {
        assert_eq!(events(open.as_bytes(), step, 50), ["skipped"], "by {step}");
    }
    // Exactly the limit, in CRLF: the last LF is not the event's.
    let exact = "data: 0123\r\n\r\ndata: 01234\r\n\r\n";
    for step in 1..=exact.len() {
        assert_eq!(
            events(exact.as_bytes(), step, 13),
            ["|0123|", "skipped"],
            "by {step}"
        );
    }
}

#[test]
fn an_event_of_ten_megabytes_is_skipped_without_being_held() {
    let mut stream = b"data: ".to_vec();
    stream.resize(10 << 20, b'a');
    stream.extend_from_slice(b"\n\ndata: b\n\n");
    assert_eq!(events(&stream, 65536, 1 << 20), ["|b|", "skipped"]);
    assert_eq!(events(&stream, stream.len(), 1 << 20), ["|b|", "skipped"]);
}

#[test]
fn a_buffer_stretched_by_one_event_is_let_go() {
    let mut splitter = Splitter::new(10 << 20);
    let long = format!("data: {}\ndata: b\n\n", "a".repeat(1 << 20));
    let (head, tail) = long.split_at(1 << 19);
    let mut lengths = Vec::new();
    for piece in [head, tail, "data: ", "c\n\n"] {
        splitter.feed(piece.as_bytes(), |event| lengths.push(event.data.len()));
    }
    assert_eq!(lengths, [(1 << 20) + 2, 1]);
    assert!(splitter.held.capacity() <= KEPT && splitter.joined.capacity() <= KEPT);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_cutting_makes_no_difference(
        stream in "([a-z: ]|data: |error:|event: |\r|\n|\n\n|\r\n|\u{feff}|é){0,60}",
        step in 1usize..9,
        limit in 4usize..80,
    ) {
        let bytes = stream.as_bytes();
        let whole = events(bytes, bytes.len().max(1), limit);
        prop_assert_eq!(events(bytes, step, limit), whole);
    }
}

/// Any bytes, the first of which says how they are cut: the cutting makes no difference.
#[test]
fn any_bytes_can_be_fed() {
    for seed in 0..200u32 {
        let bytes: Vec<u8> = (0..300u32)
            .map(|i| {
                let word = (i.wrapping_mul(2_654_435_761) ^ seed.wrapping_mul(40_503)) >> 13;
                *b"data: \r\n:xe"
                    .get(word as usize % 11)
                    .expect("eleven bytes")
            })
            .collect();
        fuzz_sse(&bytes);
    }
    fuzz_sse(&[]);
    for (number, capture) in (0u8..).zip(crate::capture::all()) {
        let mut bytes = vec![number];
        bytes.extend_from_slice(&capture.body());
        fuzz_sse(&bytes);
    }
}
