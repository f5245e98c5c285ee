//! As much of protobuf's wire format as Triton's messages need.
//!
//! In: fields, or bytes. Out: the other. Reading skips nothing silently: who reads decides what a field means. Never
//! trusts a length.

/// A message being written, field by field.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Bytes(&'a [u8]),
}

/// What came is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Writer {
    /// A number; zero is not written, as proto3 has it.
    pub(crate) fn number(self, field: u32, value: u64) -> Writer {
        if value == 0 {
            self
        } else {
            self.chosen(field, value)
        }
    }

    /// A number of a `oneof`, where zero is written too.
    pub(crate) fn chosen(mut self, field: u32, value: u64) -> Writer {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    /// Text or bytes; an empty one is not written.
    pub(crate) fn bytes(self, field: u32, value: impl AsRef<[u8]>) -> Writer {
        if value.as_ref().is_empty() {
            self
        } else {
            self.entry(field, value.as_ref())
        }
    }

    /// A message, or an element of a list: written even when empty.
    pub(crate) fn entry(mut self, field: u32, value: &[u8]) -> Writer {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// A packed list of numbers.
    pub(crate) fn packed(self, field: u32, values: &[i64]) -> Writer {
        let mut packed = Writer::default();
        for value in values {
            // A negative number has the ten bytes of its 64 bits.
            packed.varint(value.cast_unsigned());
        }
        self.bytes(field, packed.0)
    }

    /// The message.
    pub(crate) fn done(self) -> Vec<u8> {
        self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }
}

/// The fields of a message, in the order written.
pub(crate) fn fields(bytes: &[u8]) -> Result<Vec<(u32, Value<'_>)>, Malformed> {
    let mut rest = bytes;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        fields.push(field(&mut rest).ok_or(Malformed)?);
    }
    Ok(fields)
}

/// The numbers of a packed list.
pub(crate) fn packed(mut bytes: &[u8]) -> Result<Vec<i64>, Malformed> {
    let mut numbers = Vec::new();
    while !bytes.is_empty() {
        numbers.push(varint(&mut bytes).ok_or(Malformed)?.cast_signed());
    }
    Ok(numbers)
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<(u32, Value<'a>)> {
    let key = varint(rest)?;
    let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0)?;
    let value = match key & 7 {
        0 => Value::Varint(varint(rest)?),
        1 => Value::Fixed64(*rest.split_off(..8)?.first_chunk()?),
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            Value::Bytes(rest.split_off(..length)?)
        }
        5 => Value::Fixed32(*rest.split_off(..4)?.first_chunk()?),
        // Groups are not of proto3.
        _ => return None,
    };
    Some((number, value))
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *rest.split_off_first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_is_written_as_the_standard_has_it() {
        // The examples of protobuf.dev/programming-guides/encoding.
        assert_eq!(Writer::default().number(1, 150).done(), [8, 0x96, 1]);
        assert_eq!(
            Writer::default().bytes(2, "testing").done(),
            b"\x12\x07testing"
        );
        assert_eq!(
            Writer::default().packed(6, &[3, 270, 86_942]).done(),
            [0x32, 6, 3, 0x8e, 2, 0x9e, 0xa7, 5]
        );
        assert!(
            Writer::default()
                .number(1, 0)
                .bytes(2, "")
                .done()
                .is_empty()
        );
    }

    proptest! {
        #[test]
        fn what_is_written_reads_the_same(number in 1..u64::MAX, text: String, list: Vec<i64>) {
            let message = Writer::default().number(1, number).entry(2, text.as_bytes()).packed(3, &list).done();
            let fields = fields(&message).unwrap();
            prop_assert_eq!(fields[0], (1, Value::Varint(number)));
            prop_assert_eq!(fields[1], (2, Value::Bytes(text.as_bytes())));
            if let Some((3, Value::Bytes(bytes))) = fields.get(2) {
                prop_assert_eq!(packed(bytes).unwrap(), list);
            } else {
                prop_assert!(list.is_empty());
            }
        }

        #[test]
        fn no_bytes_break_the_reader(bytes: Vec<u8>) {
            if let Ok(found) = fields(&bytes) {
                prop_assert!(found.len() <= bytes.len());
            }
            if let Ok(found) = packed(&bytes) {
                prop_assert!(found.len() <= bytes.len());
            }
        }
    }
}
