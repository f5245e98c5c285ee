//! The fences between the packages, as their manifests have them.

use super::tree::text;

/// What `filters` may stand on: libraries without sockets, clocks, threads or chance.
const FILTERS: [&str; 10] = [
    "http",
    "humantime",
    "memchr",
    "regex-lite",
    "schemars",
    "serde",
    "serde_json",
    "subtle",
    "thiserror",
    "xxhash-rust",
];

#[test]
fn filters_stand_on_pure_libraries_only() {
    let found = dependencies(&text("filters/Cargo.toml"));
    let beyond: Vec<&String> = found
        .iter()
        .filter(|name| !FILTERS.contains(&name.as_str()))
        .collect();
    assert!(
        !found.is_empty(),
        "filters/Cargo.toml: found no dependencies"
    );
    assert!(
        beyond.is_empty(),
        "filters/Cargo.toml: found {beyond:?}, allowed are {FILTERS:?}"
    );
}

#[test]
fn only_the_server_knows_its_library() {
    for manifest in ["filters/Cargo.toml", "sim/Cargo.toml"] {
        let manifest_text = text(manifest);
        assert!(
            !manifest_text.contains("pingora"),
            "{manifest}: found Pingora, which only the root package may use"
        );
    }
    assert!(
        !text("filters/Cargo.toml").contains("tokio"),
        "filters/Cargo.toml: found tokio"
    );
}

#[test]
fn the_servers_library_is_pinned() {
    let manifest = text("Cargo.toml");
    for library in ["pingora-core", "pingora-http"] {
        let line = manifest
            .lines()
            .find(|line| line.starts_with(&format!("{library} = ")));
        let line = line.unwrap_or_else(|| panic!("Cargo.toml: found no version of {library}"));
        assert!(
            line.contains("\"=0."),
            "Cargo.toml: found {line:?}, allowed is one exact version"
        );
    }
}

#[test]
fn every_package_takes_the_lints_of_the_workspace() {
    for manifest in ["Cargo.toml", "filters/Cargo.toml", "sim/Cargo.toml"] {
        assert!(
            text(manifest).contains("[lints]\nworkspace = true"),
            "{manifest}"
        );
    }
}

#[test]
fn a_dependency_is_found_however_it_is_written() {
    let check = |manifest: &str, expected: &[&str]| {
        assert_eq!(dependencies(manifest), expected, "{manifest}")
    };
    check(
        "[dependencies]\nhttp.workspace = true\n\n[dev-dependencies]\nproptest = \"1\"\n",
        &["http"],
    );
    check(
        "[dependencies]\n# why\nhttp = \"1\"\nserde = { version = \"1\" }\n",
        &["http", "serde"],
    );
    check("[dependencies.tokio]\nversion = \"1\"\n", &["tokio"]);
    check(
        "[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n",
        &["libc"],
    );
    check("[build-dependencies]\ncc = \"1\"\n", &["cc"]);
    check("[package]\nname = \"a\"\n", &[]);
}

// The names under each table of dependencies but those of tests.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            let (head, name) = match table.rsplit_once('.') {
                Some((head, name)) if head.ends_with("dependencies") => (head, Some(name)),
                Some(_) | None => (table, None),
            };
            let counts = head.ends_with("dependencies") && !head.ends_with("dev-dependencies");
            inside = counts && name.is_none();
            found.extend(name.filter(|_| counts).map(str::to_owned));
        } else if inside && !line.is_empty() && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            found.push(name.to_owned());
        }
    }
    found
}
