//! Tables in the documents that must say what the code says, both ways.

use std::collections::BTreeSet;

use greylag::telemetry::log::{fields::FIELDS, line};

use super::tree::{text, texts};

#[test]
fn the_metrics_page_is_documented_name_by_name() {
    let files = [
        "metrics.rs",
        "metrics/engines.rs",
        "metrics/spans.rs",
        "metrics/success.rs",
    ];
    let code: String = files
        .iter()
        .map(|file| text(&format!("src/telemetry/{file}")))
        .collect();
    let names = quoted(&code).filter(|name| {
        let counted =
            name.starts_with("model_") && (name.ends_with("_seconds") || name.ends_with("_total"));
        name.starts_with("greylag_") || counted
    });
    same("docs/metrics.md", names.collect());
}

#[test]
fn every_reason_of_a_refusal_is_documented() {
    let code = text("filters/src/refusal/reason.rs");
    let codes = code
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Reason::")?.split_once(" => \""))
        .filter_map(|(_, code)| code.strip_suffix("\","));
    same("docs/refusals.md", codes.collect());
}

#[test]
fn every_field_of_an_exchange_is_documented() {
    let code = text("src/telemetry/line.rs");
    let mut fields = Vec::new();
    for (structure, before) in [
        ("Line", ""),
        ("Times", "times."),
        ("Tokens", "tokens."),
        ("Calls", "requests."),
        ("Fault", "error."),
        ("Judged", ""),
    ] {
        let body = code
            .split_once(&format!("struct {structure}"))
            .and_then(|(_, rest)| rest.split_once("\n}"))
            .unwrap_or_else(|| panic!("src/telemetry/line.rs: found no struct {structure}"))
            .0;
        let names = body
            .lines()
            .filter_map(|line| line.trim().split_once(": "))
            .filter(|(name, _)| {
                name.chars()
                    .all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
            })
            // Those of the outer one are what the others are.
            .filter(|(name, _)| {
                !before.is_empty() || !matches!(*name, "times" | "tokens" | "requests" | "error")
            });
        fields.extend(names.map(|(name, _)| format!("{before}{name}")));
    }
    same(
        "docs/exchanges.md",
        fields.iter().map(String::as_str).collect(),
    );
}

#[test]
fn every_field_of_the_access_log_is_documented() {
    let document = text("docs/access-log.md");
    for field in FIELDS {
        let row = format!("| `{}` | {} |\n", field.name, field.meaning);
        assert!(
            document.contains(&row),
            "docs/access-log.md has no row\n{row}"
        );
    }
    let schema = text("docs/access-log.schema.json");
    let written: serde_json::Value = serde_json::from_str(&schema).expect("it is JSON");
    assert_eq!(
        written,
        line::schema(),
        "print it anew: greylag schema --log"
    );
    let sources = texts("src", &[".rs"]);
    let mut events = 0;
    // There the names are those of fields.
    let told = sources
        .iter()
        .filter(|file| !file.path.ends_with("log/fields.rs"));
    for file in told {
        for name in file.text.split("name: \"greylag.").skip(1) {
            let name = name.split('"').next().unwrap_or_default();
            let row = format!("| `greylag.{name}` | ");
            assert!(
                document.contains(&row),
                "docs/access-log.md has no row of {name}"
            );
            events += 1;
        }
    }
    assert!(events > 20, "{events}");
    let causes = text("filters/src/cause.rs");
    let codes = quoted(&causes).filter(|word| word.split('.').count() == 3);
    for code in codes.collect::<BTreeSet<&str>>() {
        let row = format!("| `{code}` | `");
        assert!(
            document.contains(&row),
            "docs/access-log.md has no row of {code}"
        );
    }
}

#[test]
fn every_attribute_of_a_span_is_documented() {
    let code = text("src/telemetry/names.rs");
    let events = [
        "greylag.request_written",
        "gen_ai.first_token",
        "greylag.client_left",
    ];
    let document = text("docs/traces.md");
    for event in events {
        assert!(
            document.contains(event),
            "docs/traces.md: found nothing of {event}"
        );
    }
    let missing: Vec<&str> = quoted(&code)
        .filter(|name| name.contains('.') && !events.contains(name))
        .filter(|name| !document.contains(&format!("`{name}`")))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/traces.md: found nothing of {missing:?}"
    );
    let names: BTreeSet<&str> = quoted(&code).collect();
    let written = first_column(&document);
    let beyond: Vec<_> = written
        .iter()
        .filter(|name| {
            name.chars()
                .all(|c| c.is_ascii_lowercase() || "._0123456789".contains(c))
        })
        .filter(|name| name.contains('.') && !names.contains(*name))
        .collect();
    assert!(
        beyond.is_empty(),
        "docs/traces.md: found {beyond:?}, which the code has not"
    );
}

#[test]
fn every_variable_of_the_environment_is_documented() {
    let code = text("src/config/environment/otel.rs");
    let document = text("docs/traces.md");
    let known = code
        .split_once("const KNOWN")
        .and_then(|(_, rest)| rest.split_once("];"));
    let known = known
        .expect("src/config/environment/otel.rs lists what it knows")
        .0;
    for name in quoted(known) {
        // `[TRACES_]` stands for both forms, and a key for its certificate's row.
        let both = name
            .replace("OTLP_TRACES_", "OTLP_")
            .replace("OTLP_", "OTLP_[TRACES_]");
        let is_there = [name, both.as_str()]
            .iter()
            .any(|form| document.contains(form));
        let is_there =
            is_there || (name.ends_with("_CLIENT_KEY") && document.contains("…_CLIENT_KEY"));
        assert!(is_there, "docs/traces.md: found nothing of {name}");
    }
}

#[test]
fn every_path_of_the_api_is_documented() {
    let document = text("docs/admin-api.md");
    let mut paths = 0;
    let serves = |path: &str| path.starts_with("src/admin") || path.starts_with("src/observe");
    for file in texts("src", &[".rs"])
        .iter()
        .filter(|file| serves(&file.path))
    {
        for path in file
            .text
            .split(".route(")
            .skip(1)
            .filter_map(|rest| quoted(rest).next())
        {
            paths += 1;
            assert!(
                document.contains(path),
                "docs/admin-api.md: found nothing of {path}, which {} serves",
                file.path
            );
        }
    }
    assert!(paths > 0, "found no path in src/admin.rs");
}

#[test]
fn a_table_is_read_by_its_first_column() {
    let table =
        "text `greylag_no`\n\n| name | labels |\n|---|---|\n| `a_total` | `b` |\n| `c` `d` | |\n";
    let expected: BTreeSet<&str> = ["a_total", "c", "d"].into();
    assert_eq!(first_column(table), expected);
    assert_eq!(quoted(r#"a("b", "c")"#).collect::<Vec<_>>(), ["b", "c"]);
}

// Every name of the code stands in the first column of a table, and no other.
fn same(document: &str, code: BTreeSet<&str>) {
    let page = text(document);
    let written = first_column(&page);
    assert!(
        !code.is_empty(),
        "{document}: found no names in the code to compare with"
    );
    let missing: Vec<_> = code.difference(&written).collect();
    let beyond: Vec<_> = written.difference(&code).collect();
    assert!(
        missing.is_empty(),
        "{document}: found nothing of {missing:?}"
    );
    assert!(
        beyond.is_empty(),
        "{document}: found {beyond:?}, which the code has not"
    );
}

// What is marked as code in the first cell of each row.
fn first_column(document: &str) -> BTreeSet<&str> {
    document
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split('|').next())
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect()
}

fn quoted(code: &str) -> impl Iterator<Item = &str> {
    code.split('"').skip(1).step_by(2)
}
