//! Walks the fields of a protobuf message without a schema (protobuf's encoding guide, "Message Structure").
//!
//! In: the bytes of one message. Out: its fields in order, borrowed, or the first [`Fault`]. Nothing is copied or kept, a
//! message within a message is walked only when a caller asks for it, and groups are read over without recursion.

/// How deep groups may be nested. It is protobuf's own limit for messages within messages.
pub const DEEPEST: usize = 100;

/// The first place where the bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct Fault {
    /// What is wrong there.
    pub what: Flaw,
    /// The byte's offset from the start of the message: where the tag or the value begins that cannot be read.
    pub at: usize,
}

/// What can be wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// The bytes stop inside a field.
    #[error("found the end of the message inside a field")]
    End,
    /// A number of more than ten bytes, or past 64 bits.
    #[error("found a varint past 64 bits")]
    Varint,
    /// Field numbers go from 1 to 2^29 - 1.
    #[error("found the field number {0}, allowed are 1 to 536870911")]
    Number(u64),
    /// Wire types 6 and 7 do not exist.
    #[error("found the wire type {0}, allowed are 0 to 5")]
    WireType(u8),
    /// The end of a group that did not begin, or of another one.
    #[error("found the end of a group that is not open")]
    Group,
    /// More than [`DEEPEST`].
    #[error("found more than {DEEPEST} nested groups")]
    Deep,
}

/// One field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its number in the schema, from 1 to 2^29 - 1.
    pub number: u32,
    /// Its value.
    pub value: Value<'a>,
}

/// What stands in a field, as far as the wire tells. Groups never come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Integers, booleans and enums. Negative numbers stand as their two's complement.
    Varint(u64),
    /// Eight bytes, little-endian.
    Fixed64(u64),
    /// Four bytes, little-endian.
    Fixed32(u32),
    /// Text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The bytes of text, bytes or a message.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            Value::Varint(_) | Value::Fixed64(_) | Value::Fixed32(_) => None,
        }
    }

    /// The number of an integer, a boolean or an enum.
    pub fn varint(self) -> Option<u64> {
        match self {
            Value::Varint(number) => Some(number),
            Value::Bytes(_) | Value::Fixed64(_) | Value::Fixed32(_) => None,
        }
    }
}

/// The fields of one message, in order. After a fault there are no more.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    // at <= bytes.len()
    at: usize,
}

impl<'a> Fields<'a> {
    /// The fields of the message that is all of `bytes`.
    pub fn of(bytes: &'a [u8]) -> Fields<'a> {
        Fields { bytes, at: 0 }
    }

    fn field(&mut self) -> Result<Option<Field<'a>>, Fault> {
        while self.at < self.bytes.len() {
            let start = self.at;
            let (number, wire) = self.tag()?;
            match self.value(wire)? {
                Some(value) => return Ok(Some(Field { number, value })),
                None if wire == Wire::GroupStart => self.group(number)?,
                None => return Err(fault(Flaw::Group, start)),
            }
        }
        Ok(None)
    }

    /// Reads over a group whose start has been read.
    fn group(&mut self, number: u32) -> Result<(), Fault> {
        let mut open = [0u32; DEEPEST];
        let mut depth = 0;
        let mut inner = number;
        loop {
            *open
                .get_mut(depth)
                .ok_or_else(|| fault(Flaw::Deep, self.at))? = inner;
            depth += 1;
            inner = loop {
                let start = self.at;
                let (number, wire) = self.tag()?;
                if self.value(wire)?.is_some() {
                    continue;
                }
                if wire == Wire::GroupStart {
                    break number;
                }
                depth -= 1;
                if open.get(depth) != Some(&number) {
                    return Err(fault(Flaw::Group, start));
                }
                if depth == 0 {
                    return Ok(());
                }
            };
        }
    }

    fn tag(&mut self) -> Result<(u32, Wire), Fault> {
        let start = self.at;
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3)
            .ok()
            .filter(|number| (1..=LAST_NUMBER).contains(number))
            .ok_or_else(|| fault(Flaw::Number(tag >> 3), start))?;
        let [low, ..] = tag.to_le_bytes();
        let wire = match low & 7 {
            0 => Wire::Varint,
            1 => Wire::Fixed64,
            2 => Wire::Bytes,
            3 => Wire::GroupStart,
            4 => Wire::GroupEnd,
            5 => Wire::Fixed32,
            other => return Err(fault(Flaw::WireType(other), start)),
        };
        Ok((number, wire))
    }

    /// The value after a tag; nothing for the marks of groups.
    fn value(&mut self, wire: Wire) -> Result<Option<Value<'a>>, Fault> {
        Ok(Some(match wire {
            Wire::Varint => Value::Varint(self.varint()?),
            Wire::Fixed64 => Value::Fixed64(u64::from_le_bytes(self.chunk()?)),
            Wire::Fixed32 => Value::Fixed32(u32::from_le_bytes(self.chunk()?)),
            Wire::Bytes => {
                let start = self.at;
                let length = self.varint()?;
                let end = usize::try_from(length)
                    .ok()
                    .and_then(|length| self.at.checked_add(length));
                let bytes = end.and_then(|end| self.bytes.get(self.at..end));
                let bytes = bytes.ok_or_else(|| fault(Flaw::End, start))?;
                self.at += bytes.len();
                Value::Bytes(bytes)
            }
            Wire::GroupStart | Wire::GroupEnd => return Ok(None),
        }))
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Fault> {
        let start = self.at;
        let mut number = 0u64;
        for shift in (0..=63).step_by(7) {
            let byte = *self
                .bytes
                .get(self.at)
                .ok_or_else(|| fault(Flaw::End, start))?;
            self.at += 1;
            // The tenth byte has room for one bit.
            if shift == 63 && byte > 1 {
                break;
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(fault(Flaw::Varint, start))
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let chunk = rest
            .first_chunk::<N>()
            .ok_or_else(|| fault(Flaw::End, self.at))?;
        self.at += N;
        Ok(*chunk)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Fault>;

    #[inline]
    fn next(&mut self) -> Option<Result<Field<'a>, Fault>> {
        let field = self.field().transpose();
        if !matches!(field, Some(Ok(_))) {
            self.at = self.bytes.len();
        }
        field
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wire {
    Varint,
    Fixed64,
    Fixed32,
    Bytes,
    GroupStart,
    GroupEnd,
}

const LAST_NUMBER: u32 = (1 << 29) - 1;

fn fault(what: Flaw, at: usize) -> Fault {
    Fault { what, at }
}

#[cfg(test)]
pub(crate) mod tests;
