use proptest::prelude::*;

use super::*;

const ANN: &str = "0123456789abcdef";
const BOB: &str = "fedcba9876543210";

fn file(lines: &[&str]) -> Result<Tokens, Fault> {
    Tokens::read(lines.join("\n").as_bytes())
}

fn check(lines: &[&str], expected: Result<usize, &str>) {
    let found = file(lines);
    let found = found.as_ref().map(Tokens::count).map_err(Fault::to_string);
    match (&found, expected) {
        (Ok(count), Ok(expected)) => assert_eq!(*count, expected, "{lines:?}"),
        (Err(fault), Err(part)) => assert!(fault.contains(part), "{lines:?}: {fault}"),
        (found, expected) => panic!("{lines:?} gave {found:?}, not {expected:?}"),
    }
}

#[test]
fn a_line_is_a_name_a_role_and_a_token() {
    let (ann, bob) = (format!("ann write {ANN}"), format!("bob\tread   {BOB}\r"));
    check(&[&ann], Ok(1));
    check(&["# who", "", &ann, "  # and", &bob, ""], Ok(2));
    check(&[&format!("a.B_c-9 read {}", "~".repeat(256))], Ok(1));
    check(&[], Err("found no token"));
    check(&["# nobody"], Err("found no token"));
    check(&[&ann, "bob read"], Err("line 2: found other than three"));
    check(
        &[&format!("{ann} # her")],
        Err("line 1: found other than three"),
    );
    check(&[&format!("a/b read {ANN}")], Err("line 1: the first word"));
    check(
        &[&format!("ann admin {ANN}")],
        Err("line 1: the second word"),
    );
    check(
        &[&format!("ann WRITE {ANN}")],
        Err("line 1: the second word"),
    );
    check(&["ann read 0123456789abcde"], Err("line 1: the third word"));
    let long = format!("ann read {}", "x".repeat(257));
    check(&[&long], Err("line 1: the third word"));
    check(&["ann read 0123456789abcdé"], Err("line 1: the third word"));
    check(
        &[&ann, &format!("bob read {ANN}")],
        Err("line 2: the token stands"),
    );
    check(
        &[&ann, &format!("ann read {BOB}")],
        Err("line 2: the name stands"),
    );
    let many = |count: usize| -> Vec<String> {
        let line = |number| format!("n{number} read {number:016}");
        (0..count).map(line).collect()
    };
    let lines = many(MOST);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    check(&lines, Ok(MOST));
    let lines = many(MOST + 1);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    check(&lines, Err("found more than 512 tokens"));
    let long = format!("{ann}\n#{}", "x".repeat(LONGEST));
    check(&[&long], Err("found more than"));
    assert_eq!(
        Tokens::read(b"ann write 0123456789abcde\xff"),
        Err(Fault::Line {
            line: 1,
            what: "found bytes that are not UTF-8; a line is NAME ROLE TOKEN"
        })
    );
}

#[test]
fn a_token_is_found_whole_and_no_other() {
    let long = "x".repeat(256);
    let tokens = file(&[
        &format!("ann write {ANN}"),
        &format!("bob read {BOB}"),
        &format!("cid read {long}"),
    ])
    .unwrap();
    let check = |said: &[u8], expected: Option<(&str, Role)>| {
        let found = tokens.find(said);
        let found = found.map(|known| (known.name.as_str(), known.role));
        assert_eq!(found, expected, "{said:?}");
    };
    check(ANN.as_bytes(), Some(("ann", Role::Write)));
    check(BOB.as_bytes(), Some(("bob", Role::Read)));
    check(long.as_bytes(), Some(("cid", Role::Read)));
    check(b"", None);
    check(b"0123456789abcde", None);
    check(b"0123456789abcdef0", None);
    check(b"0123456789abcdef\0", None);
    check(b"0123456789ABCDEF", None);
    check(format!("{long}x").as_bytes(), None);
    check(&[0; 300], None);
}

#[test]
fn no_token_shows() {
    let tokens = file(&[&format!("ann write {ANN}")]).unwrap();
    assert_eq!(format!("{tokens:?}"), "{Name(\"ann\"): Write}");
    // Words in another order, too many of them, and a token that is too short.
    for line in [
        format!("{ANN} ann write"),
        format!("ann {ANN} write"),
        format!("ann write {ANN} {BOB}"),
        "ann write shortmark".to_owned(),
    ] {
        let fault = file(&[&line]).unwrap_err();
        for shown in [format!("{fault}"), format!("{fault:?}")] {
            let leaks = [ANN, BOB, "shortmark"]
                .iter()
                .any(|token| shown.contains(token));
            assert!(!leaks, "{line}: {shown}");
        }
    }
}

proptest! {
    #[test]
    fn any_file_is_read_or_refused(bytes: Vec<u8>) {
        fuzz_tokens(&bytes);
    }

    #[test]
    fn every_token_of_a_file_is_found(
        tokens in prop::collection::btree_set("[!-~]{16,40}", 1..8),
        other in "[!-~]{16,40}",
    ) {
        let lines: Vec<String> =
            tokens.iter().enumerate().map(|(n, token)| format!("n{n} read {token}")).collect();
        let text = lines.join("\n");
        fuzz_tokens(text.as_bytes());
        let read = Tokens::read(text.as_bytes()).unwrap();
        for (number, token) in tokens.iter().enumerate() {
            let name = format!("n{number}");
            let found = read.find(token.as_bytes()).map(|known| known.name.as_str().to_owned());
            prop_assert_eq!(found, Some(name));
        }
        prop_assert_eq!(read.find(other.as_bytes()).is_some(), tokens.contains(&other));
    }
}
