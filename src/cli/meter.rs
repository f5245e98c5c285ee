//! `greylag meter RESPONSE.http`: what the meter makes of a recorded answer.
//!
//! In: a file with an answer's bytes, head and body as on the wire; its dialect from the request's path, else as it is
//! recognised. Out: one object, or one line a figure. Of several answers in a row the first is read. The text of the answer is
//! not printed.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use greylag_filters::eye::{Asked, Eye, is_sse};
use greylag_filters::framing::{self, Decoder, Framing};
use greylag_filters::meter::{Dialect, Figures, Offset, Unmetered, Wanted};
use greylag_filters::outcome::{self, End, Outcome};
use greylag_filters::recognise;
use greylag_filters::route::Route;
use http::Method;
use pingora_http::ResponseHeader;
use serde::Serialize;

use super::{Exit, complain, print};
use crate::upstream::answer;

/// The longest file that is read, in bytes.
const LONGEST: u64 = 1 << 30;

/// What is metered, and how it is shown.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The file: status line, fields, an empty line, the body with its chunk framing (or without, as curl -i shows it)
    file: PathBuf,
    /// The path of the request, which says the dialect; without it the answer is recognised
    #[arg(long, value_name = "PATH", conflicts_with = "dialect")]
    path: Option<String>,
    /// The dialect itself, as rules.routes names it
    #[arg(long, value_name = "NAME")]
    dialect: Option<String>,
    /// Print one JSON object, in which what is not known is null
    #[arg(long)]
    json: bool,
}

/// What the meter makes of an answer.
#[derive(Debug, Serialize)]
struct Found {
    status: u16,
    dialect: Option<&'static str>,
    outcome: &'static str,
    /// A word for each choice that ended, in no order.
    finish_reasons: Vec<&'static str>,
    output_tokens: Option<u64>,
    prompt_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
    /// Events of a stream that bear tokens; null for what is no stream.
    token_events: Option<u64>,
    /// Counted from 1 among `events`.
    first_token_event: Option<u64>,
    events: Option<u64>,
    terminated: Option<bool>,
    /// Whether its framing ends before the file does.
    complete: bool,
    error: Option<String>,
    model: Option<String>,
    unmetered: Option<&'static str>,
    bad_events: u64,
}

/// Meters a file.
pub(super) fn meter(args: &Args) -> Result<(), Exit> {
    let bytes = read(&args.file).map_err(|error| {
        complain(&format!("{}: {error}", args.file.display()));
        Exit::System
    })?;
    let dialect = named(args).map_err(|what| {
        complain(&what);
        Exit::Usage
    })?;
    let found = look(&bytes, dialect).map_err(|what| {
        complain(&format!("{}: {what}", args.file.display()));
        Exit::Failed
    })?;
    print(&if args.json {
        serde_json::to_string(&found).map_err(|_| Exit::Output)?
    } else {
        shown(&found)
    })
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // What is no file has no length to ask for.
    let file = fs::File::open(file)?;
    file.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        let what = format!("it has more than {LONGEST} bytes, of which so many are read");
        return Err(io::Error::other(what));
    }
    // As curl shows the head of an answer over HTTP/2.
    const H2: &[u8] = b"HTTP/2 ";
    if bytes.starts_with(H2) {
        bytes.splice(..H2.len(), *b"HTTP/1.1 ");
    }
    Ok(bytes)
}

fn named(args: &Args) -> Result<Option<Dialect>, String> {
    if let Some(path) = &args.path {
        // A query is no part of it, and a whole URL's path is one.
        let path = path.split_once('?').map_or(&**path, |(path, _)| path);
        let route = Route::of(path);
        return route.dialect().map(Some).ok_or_else(|| {
            format!("--path: {path:?} is no inference route whose answers are read by themselves; --dialect names one of {}", names())
        });
    }
    let Some(name) = &args.dialect else {
        return Ok(None);
    };
    let named = Dialect::named(name).map(Some);
    named.ok_or_else(|| format!("--dialect: {name:?} is none; allowed are {}", names()))
}

fn names() -> String {
    let names: Vec<&str> = Dialect::ALL.iter().map(|dialect| dialect.name()).collect();
    names.join(", ")
}

// An answer's body, and whether its framing says that it is whole.
struct Body {
    bytes: Vec<u8>,
    is_whole: bool,
    is_framed: bool,
}

fn look(bytes: &[u8], dialect: Option<Dialect>) -> Result<Found, String> {
    let (head, rest) = final_head(bytes)?;
    let body = unframed(&head, rest)?;
    let dialect = dialect.or_else(|| recognise::dialect(&head.headers, &body.bytes));
    let end = match body.is_whole {
        true => End::Complete,
        false => End::EngineClosed,
    };
    let status = head.status.as_u16();
    // What is not recognised may still be an error.
    let (figures, unmetered) = figures(&head, &body, dialect.unwrap_or(Dialect::Json));
    let unmetered = unmetered.or(dialect.is_none().then_some(Unmetered::NoDialect));
    let is_stream = is_sse(&head.headers);
    let end = outcome::end(end, body.is_framed, figures.as_ref());
    let outcome = outcome::classify(end, Some(status), is_stream, figures.as_ref());
    Ok(Found::of(
        status,
        dialect,
        outcome,
        figures,
        unmetered,
        (is_stream, body.is_whole),
    ))
}

// The head of the answer itself: interim ones (1xx) come before it.
fn final_head(bytes: &[u8]) -> Result<(Box<ResponseHeader>, &[u8]), String> {
    let mut rest = bytes;
    loop {
        let read =
            answer::head(rest).map_err(|_| "it does not begin with the head of an HTTP/1 answer");
        let Some((head, length)) = read? else {
            return Err("the head of the answer is cut off: no empty line ends it".into());
        };
        rest = rest.get(length..).unwrap_or_default();
        if !head.status.is_informational() {
            return Ok((head, rest));
        }
    }
}

fn unframed(head: &ResponseHeader, rest: &[u8]) -> Result<Body, String> {
    let framing = framing::of_answer(head.status, &head.headers, &Method::GET);
    let framing = framing.map_err(|_| "the length or the coding of its body makes no sense")?;
    Ok(match framing {
        Framing::None => Body {
            bytes: Vec::new(),
            is_whole: true,
            is_framed: true,
        },
        Framing::UntilClose => Body {
            bytes: rest.to_vec(),
            is_whole: true,
            is_framed: false,
        },
        Framing::Length(length) => {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            Body {
                bytes: rest.get(..length).unwrap_or(rest).to_vec(),
                is_whole: rest.len() >= length,
                is_framed: true,
            }
        }
        Framing::Chunked => chunked(rest),
    })
}

// What is chunked by its head, and does not begin with a chunk, is taken as it is: curl takes the framing off and leaves the
// field there.
fn chunked(rest: &[u8]) -> Body {
    let (mut decoder, mut bytes) = (Decoder::default(), Vec::new());
    match decoder.decode(rest, &mut bytes) {
        Err(_) if bytes.is_empty() => Body {
            bytes: rest.to_vec(),
            is_whole: true,
            is_framed: false,
        },
        decoded => Body {
            bytes,
            is_whole: decoded.is_ok() && decoder.is_done(),
            is_framed: true,
        },
    }
}

fn figures(
    head: &ResponseHeader,
    body: &Body,
    dialect: Dialect,
) -> (Option<Figures>, Option<Unmetered>) {
    let asked = Asked {
        stream: false,
        one_choice: true,
        echoes: 0,
        checks: Wanted::default(),
    };
    let eye = Eye::of(dialect, (head.status, &head.headers), asked, usize::MAX);
    match eye {
        Eye::Blind(why) => (None, why),
        Eye::Stream(mut meter) | Eye::Whole(mut meter) => {
            meter.feed(Offset::ZERO, &body.bytes);
            let figures = meter.finish();
            let why = figures.unmetered;
            (Some(figures), why)
        }
    }
}

impl Found {
    fn of(
        status: u16,
        dialect: Option<Dialect>,
        outcome: Outcome,
        figures: Option<Figures>,
        unmetered: Option<Unmetered>,
        (is_stream, complete): (bool, bool),
    ) -> Found {
        let metered = figures.is_some() && dialect.is_some();
        let figures = figures.unwrap_or_default();
        let usage = figures.usage.unwrap_or_default();
        let of_stream = |value: u64| (metered && is_stream).then_some(value);
        Found {
            status,
            dialect: dialect.map(Dialect::name),
            outcome: outcome.label(),
            finish_reasons: figures.finish_reasons.words().collect(),
            output_tokens: usage.completion,
            prompt_tokens: usage.prompt,
            cached_tokens: usage.cached,
            reasoning_tokens: usage.reasoning,
            token_events: of_stream(figures.token_events),
            first_token_event: figures.first_token_event,
            events: of_stream(figures.events),
            terminated: (metered && !figures.ends_with_body).then_some(figures.terminated),
            complete,
            error: figures
                .error
                .map(|error| error.word().unwrap_or("unnamed").to_owned()),
            model: figures.model.map(String::from),
            unmetered: unmetered.map(Unmetered::label),
            bad_events: figures.bad_events,
        }
    }
}

// One line a figure, for people.
fn shown(found: &Found) -> String {
    let value = serde_json::to_value(found).unwrap_or_default();
    let lines = value.as_object().into_iter().flatten();
    let lines: Vec<String> = lines
        .map(|(name, value)| {
            let value = match value {
                serde_json::Value::Null => "–".into(),
                serde_json::Value::String(text) => text.clone(),
                serde_json::Value::Array(words) if words.is_empty() => "–".into(),
                serde_json::Value::Array(words) => {
                    let words: Vec<&str> = words.iter().filter_map(|word| word.as_str()).collect();
                    words.join(", ")
                }
                other => other.to_string(),
            };
            format!("{name:18} {value}")
        })
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
    const EVENTS: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n\
        data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n\
        data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n";

    fn found(bytes: &str) -> Found {
        look(bytes.as_bytes(), None).unwrap()
    }

    fn chunk(bytes: &str) -> String {
        format!("{:x}\r\n{bytes}\r\n", bytes.len())
    }

    #[test]
    fn the_framing_of_a_stream_does_not_matter_to_its_figures() {
        let chunked = "transfer-encoding: chunked\r\n\r\n";
        for body in [
            format!("\r\n{EVENTS}"),
            format!("content-length: {}\r\n\r\n{EVENTS}", EVENTS.len()),
            format!(
                "{chunked}{}{}0\r\n\r\n",
                chunk(&EVENTS[..50]),
                chunk(&EVENTS[50..])
            ),
            // As curl shows it.
            format!("{chunked}{EVENTS}"),
        ] {
            let found = found(&format!("{HEAD}{body}"));
            assert_eq!(found.dialect, Some("chat"), "{body}");
            assert_eq!((found.outcome, found.complete), ("ok", true), "{body}");
            assert_eq!(
                (found.token_events, found.first_token_event),
                (Some(1), Some(2))
            );
            assert_eq!(
                (found.prompt_tokens, found.output_tokens),
                (Some(5), Some(1))
            );
            assert_eq!(found.finish_reasons, ["stop"]);
            assert_eq!((found.events, found.terminated), (Some(4), Some(true)));
        }
    }

    #[test]
    fn a_cut_answer_is_told_as_one() {
        let chunked = format!(
            "{HEAD}transfer-encoding: chunked\r\n\r\n{}",
            chunk(&EVENTS[..200])
        );
        let cut = found(&chunked);
        assert_eq!((cut.outcome, cut.complete), ("truncated", false));
        assert_eq!((cut.output_tokens, cut.terminated), (None, Some(false)));
    }

    #[test]
    fn what_is_no_answer_is_told_and_what_is_not_known_is_null() {
        for bytes in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "{\"choices\":[]}",
            "GET / HTTP/1.1\r\n\r\n",
        ] {
            assert!(look(bytes.as_bytes(), None).is_err(), "{bytes:?}");
        }
        let page = found("HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{\"a\":1}");
        assert_eq!((page.dialect, page.unmetered), (None, Some("no_dialect")));
        for error in [
            "content-type: text/event-stream\r\n\r\ndata: {\"error\":{\"code\":500}}\n\n",
            "\r\n{\"error\":\"no\"}",
        ] {
            let found = found(&format!("HTTP/1.1 200 OK\r\n{error}"));
            assert_eq!(
                (found.dialect, found.outcome),
                (None, "error_in_stream"),
                "{error}"
            );
        }
        let json = serde_json::to_value(&page).unwrap();
        assert!(json["output_tokens"].is_null() && json["token_events"].is_null());
        let refused =
            found("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n");
        assert_eq!((refused.status, refused.outcome), (503, "engine_error"));
        assert!(
            shown(&page).contains("outcome            ok"),
            "{}",
            shown(&page)
        );
    }
}
