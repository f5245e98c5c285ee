//! How a gRPC call ended, and how that compares with HTTP.
//!
//! In: a number, or an HTTP status. Out: a [`Status`], and what stands in `grpc-status` and `grpc-message`.

/// The status of a call (gRPC's statuscodes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// It succeeded.
    Ok = 0,
    /// The caller gave up.
    Cancelled = 1,
    /// Not one of the others.
    Unknown = 2,
    /// The request makes no sense.
    InvalidArgument = 3,
    /// The time ran out.
    DeadlineExceeded = 4,
    /// What was asked for does not exist.
    NotFound = 5,
    /// It is there already.
    AlreadyExists = 6,
    /// The caller may not.
    PermissionDenied = 7,
    /// Something is used up, a quota or a memory.
    ResourceExhausted = 8,
    /// The system is not in the state for it.
    FailedPrecondition = 9,
    /// It was given up, mostly for another one's sake.
    Aborted = 10,
    /// Past the end.
    OutOfRange = 11,
    /// Not offered here.
    Unimplemented = 12,
    /// A fault of the server's.
    Internal = 13,
    /// Not now: the same call may succeed later.
    Unavailable = 14,
    /// What was stored is lost.
    DataLoss = 15,
    /// Who the caller is was not shown.
    Unauthenticated = 16,
}

impl Status {
    /// All of them, in order of their numbers.
    pub const ALL: [Status; 17] = [
        Status::Ok,
        Status::Cancelled,
        Status::Unknown,
        Status::InvalidArgument,
        Status::DeadlineExceeded,
        Status::NotFound,
        Status::AlreadyExists,
        Status::PermissionDenied,
        Status::ResourceExhausted,
        Status::FailedPrecondition,
        Status::Aborted,
        Status::OutOfRange,
        Status::Unimplemented,
        Status::Internal,
        Status::Unavailable,
        Status::DataLoss,
        Status::Unauthenticated,
    ];

    /// The number in `grpc-status`.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Reads the value of a `grpc-status` field. A number that has no name is [`Status::Unknown`], as gRPC's own clients
    /// take it; what is no number is absent.
    pub fn read(value: &[u8]) -> Option<Status> {
        let number: u32 = std::str::from_utf8(value)
            .ok()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?
            .parse()
            .ok()?;
        let known = Status::ALL
            .into_iter()
            .find(|status| u32::from(status.code()) == number);
        Some(known.unwrap_or(Status::Unknown))
    }

    /// The name in gRPC's documents, and the metric label.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::Cancelled => "CANCELLED",
            Status::Unknown => "UNKNOWN",
            Status::InvalidArgument => "INVALID_ARGUMENT",
            Status::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Status::NotFound => "NOT_FOUND",
            Status::AlreadyExists => "ALREADY_EXISTS",
            Status::PermissionDenied => "PERMISSION_DENIED",
            Status::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Status::FailedPrecondition => "FAILED_PRECONDITION",
            Status::Aborted => "ABORTED",
            Status::OutOfRange => "OUT_OF_RANGE",
            Status::Unimplemented => "UNIMPLEMENTED",
            Status::Internal => "INTERNAL",
            Status::Unavailable => "UNAVAILABLE",
            Status::DataLoss => "DATA_LOSS",
            Status::Unauthenticated => "UNAUTHENTICATED",
        }
    }

    /// The HTTP status that says the same (google.rpc.Code, "HTTP Mapping"), so that calls and requests can be counted
    /// alike.
    pub fn http(self) -> u16 {
        match self {
            Status::Ok => 200,
            Status::InvalidArgument | Status::FailedPrecondition | Status::OutOfRange => 400,
            Status::Unauthenticated => 401,
            Status::PermissionDenied => 403,
            Status::NotFound => 404,
            Status::AlreadyExists | Status::Aborted => 409,
            Status::ResourceExhausted => 429,
            Status::Cancelled => 499,
            Status::Unknown | Status::Internal | Status::DataLoss => 500,
            Status::Unimplemented => 501,
            Status::Unavailable => 503,
            Status::DeadlineExceeded => 504,
        }
    }

    /// The status for a refusal of our own that would be `http` over HTTP. It is not gRPC's table for answers of
    /// intermediaries that do not know gRPC, which takes a 400 for a fault of the server's.
    pub fn of_refusal(http: u16) -> Status {
        match http {
            200..=299 => Status::Ok,
            401 => Status::Unauthenticated,
            403 => Status::PermissionDenied,
            404 => Status::NotFound,
            408 | 504 => Status::DeadlineExceeded,
            409 => Status::Aborted,
            413 | 429 | 431 => Status::ResourceExhausted,
            499 => Status::Cancelled,
            405 | 415 | 501 => Status::Unimplemented,
            502 | 503 | 529 => Status::Unavailable,
            400..=498 => Status::InvalidArgument,
            500..=599 => Status::Internal,
            _ => Status::Unknown,
        }
    }
}

/// A text as it stands in `grpc-message`: what is no plain ASCII, and the percent sign, as `%` and two hex digits for each
/// byte.
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'$' | b'&'..=b'~' => encoded.push(char::from(byte)),
            other => {
                let digit = |value: u8| match value {
                    0..=9 => char::from(b'0' + value),
                    more => char::from(b'A' + more - 10),
                };
                encoded.extend(['%', digit(other >> 4), digit(other & 15)]);
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_status_is_known_by_its_number() {
        for (number, status) in (0u8..).zip(Status::ALL) {
            assert_eq!(status.code(), number);
            assert_eq!(Status::read(number.to_string().as_bytes()), Some(status));
        }
        let check = |value: &str, expected: Option<Status>| {
            assert_eq!(Status::read(value.as_bytes()), expected, "{value}");
        };
        check("17", Some(Status::Unknown));
        check("05", Some(Status::NotFound));
        check("", None);
        check("-1", None);
        check("+5", None);
        check("OK", None);
        check("4294967296", None);
    }

    #[test]
    fn names_are_those_of_the_documents() {
        // as NVIDIA's client shows what Triton answered
        for (code, name) in [
            (5, "NOT_FOUND"),
            (3, "INVALID_ARGUMENT"),
            (13, "INTERNAL"),
            (12, "UNIMPLEMENTED"),
            (4, "DEADLINE_EXCEEDED"),
        ] {
            assert_eq!(Status::ALL[code].name(), name);
        }
    }

    #[test]
    fn our_refusals_blame_whom_they_blame_over_http() {
        let check = |http: u16, expected: Status| {
            assert_eq!(Status::of_refusal(http), expected, "{http}");
        };
        check(200, Status::Ok);
        check(400, Status::InvalidArgument);
        check(408, Status::DeadlineExceeded);
        check(413, Status::ResourceExhausted);
        check(417, Status::InvalidArgument);
        check(429, Status::ResourceExhausted);
        check(431, Status::ResourceExhausted);
        check(500, Status::Internal);
        check(501, Status::Unimplemented);
        check(502, Status::Unavailable);
        check(503, Status::Unavailable);
        check(504, Status::DeadlineExceeded);
        check(529, Status::Unavailable);
        check(302, Status::Unknown);
        for status in Status::ALL {
            let there = status.http();
            let back = Status::of_refusal(there).http();
            assert_eq!(back / 100, there / 100, "{}", status.name());
        }
    }

    #[test]
    fn a_message_is_plain_ascii() {
        let check = |text: &str, expected: &str| assert_eq!(percent_encoded(text), expected);
        check("", "");
        check(
            "all of limits.memory (64MiB)",
            "all of limits.memory (64MiB)",
        );
        check("100%", "100%25");
        check("a\r\nb\t\u{7f}~", "a%0D%0Ab%09%7F~");
        check("é", "%C3%A9");
    }

    // Reads a message back as gRPC's clients do.
    fn decoded(text: &str) -> String {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            if *byte == b'%' {
                let hex = std::str::from_utf8(&rest[..2]).expect("ASCII");
                bytes.push(u8::from_str_radix(hex, 16).expect("two hex digits"));
                rest = &rest[2..];
            } else {
                bytes.push(*byte);
            }
        }
        String::from_utf8(bytes).expect("the text was UTF-8")
    }

    proptest! {
        #[test]
        fn a_message_is_read_as_it_was_meant(text: String) {
            let encoded = percent_encoded(&text);
            prop_assert!(encoded.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            prop_assert_eq!(decoded(&encoded), text);
        }
    }
}
