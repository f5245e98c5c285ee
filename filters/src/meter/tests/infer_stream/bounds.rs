//! What is not metered, and how that is counted.

use super::*;

#[test]
fn past_the_bound_requests_are_counted_and_not_metered() {
    let steps = [
        Asks(request("a")),
        Asks(request("b")),
        Answers(token("b", Some(true))),
        Answers(token("a", Some(true))),
        Asks(request("c")),
        Answers(token("c", Some(true))),
    ];
    let (over, tally) = run(1, &steps);
    let ids: Vec<&str> = over.iter().map(|metered| &*metered.id).collect();
    assert_eq!(ids, ["a", "c"]);
    let expected = StreamTally {
        requests: 3,
        unmetered: 1,
        strays: 1,
        ..StreamTally::default()
    };
    assert_eq!(tally, expected);

    // Of those without an id no later one can be told from the one that was lost.
    let steps = [
        Asks(request("")),
        Asks(request("")),
        Answers(token("", Some(true))),
        Asks(request("")),
        Asks(request("a")),
        Answers(token("", Some(true))),
        Answers(token("a", Some(true))),
    ];
    let (over, tally) = run(1, &steps);
    let ids: Vec<&str> = over.iter().map(|metered| &*metered.id).collect();
    assert_eq!(ids, ["", "a"]);
    assert_eq!((tally.unmetered, tally.strays), (2, 1));
}

#[test]
fn an_id_past_its_bound_is_not_held() {
    let long = "a".repeat(Metered::LONGEST_ID + 1);
    let (over, tally) = run(
        8,
        &[
            Asks(request(&long)),
            Asks(request(&long[1..])),
            Asks(request("")),
        ],
    );
    let ids: Vec<usize> = over.iter().map(|metered| metered.id.len()).collect();
    assert_eq!(ids, [Metered::LONGEST_ID, 0]);
    assert_eq!(tally.unmetered, 1);
}

#[test]
fn what_cannot_be_read_marks_those_it_may_belong_to() {
    let mut stream = InferStream::new(8);
    let packed = Message {
        compressed: true,
        bytes: b"packed",
    };
    stream.request(ms(1), plain(&request("a")));
    assert_eq!(stream.answer(ms(2), packed), Heard::default());
    stream.request(ms(3), plain(&request("b")));
    assert_eq!(stream.answer(ms(4), plain(b"\x0a\x05m")), Heard::default());
    stream.request(ms(5), plain(&request("c")));
    stream.request(ms(6), packed);
    stream.request(ms(7), plain(b"\x0a\x05m"));
    // One that could not be read may have had no id.
    stream.request(ms(8), plain(&request("")));
    let (over, tally) = stream.finish();
    let marks: Vec<_> = over.map(|metered| metered.figures.unmetered).collect();
    assert_eq!(
        marks,
        [
            Some(Unmetered::Compressed),
            Some(Unmetered::Unparsable),
            None
        ]
    );
    let expected = StreamTally {
        requests: 6,
        unmetered: 3,
        unread: 2,
        ..StreamTally::default()
    };
    assert_eq!(tally, expected);
}

#[test]
fn requests_with_one_id_whose_ends_are_not_marked_are_in_doubt() {
    let doubts = |steps: &[Step]| {
        let (over, _) = run(8, steps);
        let marks = over.iter().map(|metered| metered.figures.unmetered);
        marks.collect::<Vec<_>>()
    };
    let wants = |id: &str| {
        let wish = parameter("triton_enable_empty_final_response", true);
        [request(id), wish].concat()
    };
    let some = |id: &str| Answers(token(id, Some(false)));
    let last = |id: &str| Answers(token(id, Some(true)));
    let ambiguous = Some(Unmetered::Ambiguous);
    let (one, another) = (Asks(request("")), Asks(request("a")));
    let check = |steps: &[Step], expected: &[Option<Unmetered>]| {
        assert_eq!(doubts(steps), expected, "{steps:?}");
    };
    check(
        &[one.clone(), another.clone(), one.clone(), some("")],
        &[ambiguous, None, ambiguous],
    );
    // Each is answered once and says so.
    check(
        &[one.clone(), one.clone(), last(""), last("")],
        &[None, None],
    );
    // The first has its mark to come, and the second is alone by then.
    check(
        &[
            Asks(wants("")),
            one.clone(),
            some(""),
            Answers(end("")),
            some(""),
        ],
        &[None, None],
    );
    check(&[one, some(""), another, some("a")], &[None, None]);
}
