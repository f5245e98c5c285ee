//! What the process tells of itself, on standard error.
//!
//! In: events, each with a name that stays, a sentence, and values. Out: a line for people, or one JSON object in the same
//! envelope as the access log: flat, in the names of OpenTelemetry's log data model.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::lines::Lines;
use crate::config::ProcessLog;

/// Puts events on standard error from now on: `RUST_LOG` says which. What comes of it writes out the last ones.
pub(super) fn to_stderr(form: ProcessLog) -> Lines {
    let held = Lines::start();
    let lines = held.clone();
    let usual = || EnvFilter::new("info,pingora_core=warn");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| usual());
    let to = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || lines.clone());
    match form {
        ProcessLog::Text => to.init(),
        ProcessLog::Json => to.event_format(Json).init(),
    }
    held
}

struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        writeln!(out, "{}", Value::Object(object(event, time)))
    }
}

fn object(event: &Event<'_>, time: String) -> Map<String, Value> {
    let metadata = event.metadata();
    let (text, number) = severity(*metadata.level());
    let mut object = Map::new();
    object.insert("timestamp".into(), time.into());
    object.insert("severity_text".into(), text.into());
    object.insert("severity_number".into(), number.into());
    // What a library tells has no name that stays.
    let name = metadata.name();
    let name = if name.starts_with(OWN) { name } else { LIBRARY };
    object.insert("event_name".into(), name.into());
    if name == LIBRARY {
        object.insert("greylag.target".into(), metadata.target().into());
    }
    event.record(&mut Fields(&mut object));
    object
}

const OWN: &str = "greylag.";
const LIBRARY: &str = "greylag.library";

// As OpenTelemetry's log data model names and counts them.
fn severity(level: Level) -> (&'static str, u8) {
    match level {
        Level::ERROR => ("ERROR", 17),
        Level::WARN => ("WARN", 13),
        Level::INFO => ("INFO", 9),
        Level::DEBUG => ("DEBUG", 5),
        Level::TRACE => ("TRACE", 1),
    }
}

struct Fields<'a>(&'a mut Map<String, Value>);

impl Fields<'_> {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        let name = match field.name() {
            "message" => "body".into(),
            name => format!("greylag.{name}"),
        };
        self.0.insert(name, value.into());
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use tracing::subscriber::with_default;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_one_line_with_its_name_and_values() {
        let sink = Sink::default();
        let making = sink.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || making.clone())
            .event_format(Json)
            .finish();
        with_default(subscriber, || {
            tracing::warn!(name: "greylag.engine.down", engine = "a", tries = 3, "an engine\nis down");
            tracing::info!("a library speaks");
        });
        let written = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = written
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["event_name"], "greylag.engine.down");
        assert_eq!(lines[0]["body"], "an engine\nis down");
        assert_eq!(
            (&lines[0]["greylag.engine"], &lines[0]["greylag.tries"]),
            (&"a".into(), &3.into())
        );
        assert_eq!(
            (&lines[0]["severity_text"], &lines[0]["severity_number"]),
            (&"WARN".into(), &13.into())
        );
        assert!(lines[0]["timestamp"].as_str().unwrap().ends_with('Z'));
        assert_eq!(lines[1]["event_name"], LIBRARY);
    }
}
