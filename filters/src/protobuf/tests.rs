//! Messages written by a small writer of the tests, and ruins of them.

use super::*;
use proptest::prelude::*;

/// Writes a varint.
pub(crate) fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            bytes.push(low & 0x7f);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// Writes a field of text, bytes or a message.
pub(crate) fn bytes(number: u32, value: &[u8]) -> Vec<u8> {
    let mut field = varint(u64::from(number) << 3 | 2);
    field.extend(varint(value.len() as u64));
    field.extend_from_slice(value);
    field
}

/// Writes a field of an integer, a boolean or an enum.
pub(crate) fn number(number: u32, value: u64) -> Vec<u8> {
    let mut field = varint(u64::from(number) << 3);
    field.extend(varint(value));
    field
}

fn check(message: &[u8], expected: &[(u32, Value<'_>)]) {
    let found: Result<Vec<_>, _> = Fields::of(message)
        .map(|field| field.map(|field| (field.number, field.value)))
        .collect();
    assert_eq!(found.as_deref(), Ok(expected), "{message:02x?}");
}

fn refuse(message: &[u8], what: Flaw, at: usize) {
    let mut fields = Fields::of(message);
    let found = fields.find_map(Result::err);
    assert_eq!(found, Some(Fault { what, at }), "{message:02x?}");
    assert_eq!(fields.next(), None, "nothing comes after a fault");
}

#[test]
fn every_kind_of_field_is_read() {
    check(b"", &[]);
    check(&[0x08, 0x96, 0x01], &[(1, Value::Varint(150))]);
    check(&[0x08, 0x00], &[(1, Value::Varint(0))]);
    check(&number(1, u64::MAX), &[(1, Value::Varint(u64::MAX))]);
    check(b"\x12\x07testing", &[(2, Value::Bytes(b"testing"))]);
    check(b"\x12\x00", &[(2, Value::Bytes(b""))]);
    check(b"\x0d\x01\0\0\0", &[(1, Value::Fixed32(1))]);
    check(b"\x09\0\0\0\0\0\0\0\x80", &[(1, Value::Fixed64(1 << 63))]);
    check(
        &[number(536_870_911, 1), bytes(5, b"a"), bytes(5, b"b")].concat(),
        &[
            (536_870_911, Value::Varint(1)),
            (5, Value::Bytes(b"a")),
            (5, Value::Bytes(b"b")),
        ],
    );
    // A varint may be longer than it need be.
    check(&[0x08, 0x81, 0x80, 0x00], &[(1, Value::Varint(1))]);
}

#[test]
fn groups_are_read_over() {
    check(
        &[
            &[0x0b][..],
            b"\x12\x01x",
            &[0x13, 0x08, 0x01, 0x14, 0x0c],
            b"\x18\x07",
        ]
        .concat(),
        &[(3, Value::Varint(7))],
    );
    let nested = |depth: usize| [vec![0x0b; depth], vec![0x0c; depth], number(2, 1)].concat();
    check(&nested(DEEPEST), &[(2, Value::Varint(1))]);
    refuse(&nested(DEEPEST + 1), Flaw::Deep, DEEPEST + 1);
}

#[test]
fn what_is_no_message_is_refused_at_its_place() {
    refuse(&[0x08], Flaw::End, 1);
    refuse(&[0x08, 0x80], Flaw::End, 1);
    refuse(&[0x80], Flaw::End, 0);
    refuse(b"\x12\x05abc", Flaw::End, 1);
    refuse(b"\x0d\0\0\0", Flaw::End, 1);
    refuse(b"\x09\0\0\0\0\0\0\0", Flaw::End, 1);
    refuse(&[&[0x12][..], &varint(u64::MAX)].concat(), Flaw::End, 1);
    refuse(&[0x00, 0x01], Flaw::Number(0), 0);
    refuse(&number(536_870_912, 1), Flaw::Number(536_870_912), 0);
    refuse(&[0x0e], Flaw::WireType(6), 0);
    refuse(&[0x08, 0x01, 0x0f], Flaw::WireType(7), 2);
    refuse(&[[0x08].as_slice(), &[0xff; 10]].concat(), Flaw::Varint, 1);
    let past = [&[0x08][..], &[0xff; 9], &[0x02]].concat();
    refuse(&past, Flaw::Varint, 1);
    refuse(&[0x0c], Flaw::Group, 0);
    refuse(&[0x0b, 0x14], Flaw::Group, 1);
    refuse(&[0x0b, 0x08, 0x01], Flaw::End, 3);
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        fields in prop::collection::vec((1u32..1 << 29, any::<u64>(), prop::option::of(prop::collection::vec(any::<u8>(), 0..40))), 0..20),
    ) {
        let message: Vec<u8> = fields.iter().flat_map(|(place, value, text)| match text {
            Some(text) => bytes(*place, text),
            None => number(*place, *value),
        }).collect();
        let found: Result<Vec<_>, _> = Fields::of(&message).collect();
        let found = found.expect("it was written well");
        prop_assert_eq!(found.len(), fields.len());
        for (field, (place, value, text)) in found.iter().zip(&fields) {
            prop_assert_eq!(field.number, *place);
            prop_assert_eq!(field.value.bytes(), text.as_deref());
            prop_assert_eq!(field.value.varint(), text.is_none().then_some(*value));
        }
        // A message that stops early is one of fewer fields, or none.
        for end in 0..message.len() {
            let whole = Fields::of(&message[..end]).take_while(Result::is_ok).count();
            prop_assert!(whole <= fields.len());
        }
    }

    #[test]
    fn any_bytes_end(bytes: Vec<u8>) {
        let fields = Fields::of(&bytes).count();
        prop_assert!(fields <= bytes.len());
    }
}
