//! What documents and other texts keep to.

use super::none;
use super::tree::{Text, exists, text, texts};

#[test]
fn architecture_names_every_module() {
    let document = text("ARCHITECTURE.md");
    let mut found = Vec::new();
    for package in ["src", "filters/src", "sim/src"] {
        let heading = format!("### `{package}`");
        let section = section(&document, &heading)
            .unwrap_or_else(|| panic!("ARCHITECTURE.md: found no {heading:?}"));
        for module in modules(&text(&format!("{package}/lib.rs"))) {
            if !section.contains(&format!("`{module}`")) {
                found.push(format!(
                    "ARCHITECTURE.md, {heading}: found nothing of `{module}`"
                ));
            }
        }
    }
    none(&found);
}

#[test]
fn the_changelog_has_room_for_what_is_not_released() {
    assert!(text("CHANGELOG.md").contains("\n## [Unreleased]\n"));
}

#[test]
fn links_between_documents_lead_somewhere() {
    let found: Vec<String> = texts("", &[".md"]).iter().flat_map(dead_links).collect();
    none(&found);
}

#[test]
fn every_make_target_that_a_document_names_exists() {
    let makefile = text("Makefile");
    let mut found = Vec::new();
    for file in texts("", &[".md"]) {
        for target in make_targets(&file.text) {
            if !makefile.contains(&format!("\n{target}:")) {
                found.push(format!(
                    "{}: found `make {target}`, which the Makefile has not",
                    file.path
                ));
            }
        }
    }
    none(&found);
    let readme = make_targets(&text("README.md"));
    for target in ["demo", "test"] {
        assert!(
            readme.iter().any(|named| named == target),
            "README.md: found no `make {target}`"
        );
    }
}

#[test]
fn recordings_keep_their_bytes() {
    assert!(
        text(".gitattributes")
            .lines()
            .any(|line| line == "*.http -text")
    );
}

#[test]
fn no_text_names_the_machine_it_was_written_on() {
    // In halves, so that this file may stand before its own judge. The lockfile names its registry as cargo does.
    let places = [
        concat!("/ro", "ot/"),
        concat!("/wo", "rk/"),
        concat!("/tmp", "/wt"),
        concat!("/ho", "me/"),
        concat!("crates.", "io-"),
        concat!("index.crates", ".io"),
    ];
    let kinds = [
        ".rs",
        ".md",
        ".toml",
        ".yaml",
        ".yml",
        ".json",
        "Makefile",
        "Dockerfile",
        "run",
        "need",
        "fuzz",
    ];
    let mut found = Vec::new();
    for file in texts("", &kinds) {
        for place in places {
            if file.text.contains(place) {
                found.push(format!("{}: found {place:?}", file.path));
            }
        }
    }
    none(&found);
}

#[test]
fn each_check_finds_what_it_is_for() {
    let readme = |text: &str| Text {
        path: "docs/page.md".into(),
        text: text.into(),
    };
    assert_eq!(
        dead_links(&readme("[a](../README.md#top) [b](https://a.b) [c](#here)")).len(),
        0
    );
    assert_eq!(dead_links(&readme("[a](README.md)")).len(), 1);
    assert_eq!(
        make_targets("`make demo`\n\n    make nothing\nto make sure"),
        ["demo", "nothing"]
    );
    assert_eq!(
        modules("pub mod a;\nmod b;\npub(crate) mod c;\n#[cfg(test)]\nmod tests;\n"),
        ["a", "b", "c"]
    );
    assert_eq!(section("# A\n## B\nb\n## C\nc", "## B"), Some("\nb"));
}

// What stands under a heading, up to the next one of any level.
fn section<'a>(document: &'a str, heading: &str) -> Option<&'a str> {
    let (_, rest) = document.split_once(heading)?;
    Some(rest.split("\n#").next().unwrap_or(rest))
}

fn modules(lib: &str) -> Vec<&str> {
    lib.lines()
        .filter_map(|line| {
            line.split_once("mod ")
                .filter(|(before, _)| before.is_empty() || before.starts_with("pub"))
        })
        .filter_map(|(_, rest)| rest.strip_suffix(';'))
        .filter(|name| *name != "tests")
        .collect()
}

fn dead_links(file: &Text) -> Vec<String> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    file.text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split('#').next().unwrap_or_default())
        .filter(|target| {
            !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:")
        })
        .filter(|target| !exists(format!("{folder}/{target}").trim_start_matches('/')))
        .map(|target| {
            format!(
                "{}: found a link to {target}, which is not there",
                file.path
            )
        })
        .collect()
}

// `make WORD` where it is a command: at the start of code, or of a line of it.
fn make_targets(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in document.lines() {
        fenced ^= line.starts_with("```");
        let code = (fenced || line.starts_with("    "))
            .then(|| line.trim())
            .into_iter();
        for code in code.chain(line.split('`').skip(1).step_by(2)) {
            if let Some(rest) = code.strip_prefix("make ") {
                let word: String = rest.chars().take_while(char::is_ascii_lowercase).collect();
                found.push(word);
            }
        }
    }
    found.retain(|target| !target.is_empty());
    found
}
