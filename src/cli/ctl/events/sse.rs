//! Cuts the API's stream into events with their ids, which those of inference servers do not have.
//!
//! In: bytes, in any cutting. Out: events, in order. Never holds more than [`LONGEST`] bytes of one: an API whose events are longer is
//! none.

/// The longest event, in bytes.
const LONGEST: usize = 16 << 20;

/// One event.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Event {
    /// What it is called.
    pub id: Option<String>,
    /// What happened.
    pub kind: Option<String>,
    /// More about it.
    pub data: String,
}

/// What came so far of the lines of one event.
#[derive(Debug, Default)]
pub struct Lines {
    // the line that is cut between feeds
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    // of the event so far: length <= LONGEST
    length: usize,
}

impl Lines {
    /// The events that end in these bytes; the last is an error where one was too long.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Result<Event, &'static str>> {
        let mut events = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.length = self.length.saturating_add(part.len());
            if self.length > LONGEST {
                events.push(Err("an event is too long"));
                return events;
            }
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                let line = line.strip_suffix(b"\n").unwrap_or(&line);
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                events.extend(self.end_line(&String::from_utf8_lossy(line)).map(Ok));
            }
        }
        events
    }

    fn end_line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            self.length = 0;
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => self.event.id = Some(value.to_owned()),
            "event" => self.event.kind = Some(value.to_owned()),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // A comment, or what is not known.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(parts: &[&[u8]]) -> Vec<Event> {
        let mut lines = Lines::default();
        let events = parts.iter().flat_map(|part| lines.feed(part));
        events.map(Result::unwrap).collect()
    }

    fn event(id: &str, kind: &str, data: &str) -> Event {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Event {
            id: some(id),
            kind: some(kind),
            data: data.to_owned(),
        }
    }

    #[test]
    fn events_are_cut_at_their_empty_lines() {
        let check = |text: &str, expected: &[Event]| {
            assert_eq!(read(&[text.as_bytes()]), expected, "{text:?}");
        };
        let one = event("1-2", "version", "{}");
        check(
            "id: 1-2\nevent: version\ndata: {}\n\n",
            std::slice::from_ref(&one),
        );
        check(
            "id:1-2\r\nevent:version\r\ndata:{}\r\n\r\n",
            std::slice::from_ref(&one),
        );
        check(":\n\ndata: a\ndata: b\n\n", &[event("", "", "a\nb")]);
        check("id: 1\n\n", &[]);
        check("data: a\n", &[]);
    }

    #[test]
    fn an_event_that_does_not_end_is_not_held() {
        let mut lines = Lines::default();
        let piece = [b'x'; 1 << 20];
        let ended = (0..20)
            .map(|_| lines.feed(&piece))
            .find(|events| !events.is_empty());
        assert_eq!(ended, Some(vec![Err("an event is too long")]));
        assert!(lines.line.len() <= LONGEST);
    }

    proptest::proptest! {
        #[test]
        fn any_cutting_gives_the_same(text in "(id: 1\n|event: a\n|data: é\n|\n|\r\n|:\n|x){0,20}", cut in 0_usize..100) {
            let bytes = text.as_bytes();
            let (head, tail) = bytes.split_at(cut.min(bytes.len()));
            proptest::prop_assert_eq!(read(&[head, tail]), read(&[bytes]));
        }
    }
}
