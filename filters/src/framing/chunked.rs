//! Reading a chunked body (RFC 9112 §7.1).
//!
//! In: its bytes, in any cutting. Out: its data. Lines end in CR LF and nothing else; extensions and trailers are read
//! over, within bounds.

/// The longest chunk extensions and the longest trailers that are read over, in bytes.
const LONGEST: (u32, u32) = (8 << 10, 64 << 10);

/// What is not a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// A chunked body that is being read.
#[derive(Debug, Clone)]
pub struct Decoder {
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    // so many digits of a size, and the size
    Size(u8, u64),
    // what follows a size on its line, and how much of it there has been
    Extension(u64, u32),
    SizeLf(u64),
    // so many bytes of data are left, at least one
    Data(u64),
    DataCr,
    DataLf,
    // the beginning of a trailer's line, or of the empty one that ends the body
    Trailer(u32),
    TrailerRest(u32),
    TrailerLf(u32),
    LastLf,
    Done,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder {
            state: State::Size(0, 0),
        }
    }
}

impl Decoder {
    /// Adds the data of `input` to `out`. Returns how many bytes belong to the body: all, unless it ends among them.
    ///
    /// # Errors
    /// [`Malformed`], with the data before the fault in `out`.
    pub fn decode(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, Malformed> {
        let mut rest = input;
        while !rest.is_empty() && self.state != State::Done {
            if let State::Data(left) = self.state {
                let here = usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
                let (data, after) = rest.split_at_checked(here).ok_or(Malformed)?;
                out.extend_from_slice(data);
                rest = after;
                self.state = match left - here as u64 {
                    0 => State::DataCr,
                    left => State::Data(left),
                };
            } else if let Some((&byte, after)) = rest.split_first() {
                self.state = next(self.state, byte)?;
                rest = after;
            }
        }
        Ok(input.len() - rest.len())
    }

    /// Whether the body has ended.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }
}

fn next(state: State, byte: u8) -> Result<State, Malformed> {
    // A size of as many digits as 64 bits have is more than any body.
    const DIGITS: u8 = 15;
    let (extension, trailers) = LONGEST;
    Ok(match (state, byte) {
        (State::Size(digits, size), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if digits < DIGITS => {
            State::Size(digits + 1, size << 4 | u64::from(value(byte)))
        }
        (State::Size(1.., size), b'\r') => State::SizeLf(size),
        (State::Size(1.., size), b';' | b' ' | b'\t') => State::Extension(size, 0),
        (State::Extension(size, _), b'\r') => State::SizeLf(size),
        (State::Extension(size, seen), byte) if byte != b'\n' && seen < extension => {
            State::Extension(size, seen + 1)
        }
        (State::SizeLf(0), b'\n') => State::Trailer(0),
        (State::SizeLf(size), b'\n') => State::Data(size),
        (State::DataCr, b'\r') => State::DataLf,
        (State::DataLf, b'\n') => State::Size(0, 0),
        (State::Trailer(_), b'\r') => State::LastLf,
        (State::TrailerRest(seen), b'\r') => State::TrailerLf(seen),
        (State::Trailer(seen) | State::TrailerRest(seen), byte)
            if byte != b'\n' && seen < trailers =>
        {
            State::TrailerRest(seen + 1)
        }
        (State::TrailerLf(seen), b'\n') => State::Trailer(seen),
        (State::LastLf, b'\n') => State::Done,
        _ => return Err(Malformed),
    })
}

fn value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
