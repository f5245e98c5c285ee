//! What the Dockerfile keeps to, read as text: what it copies, whose it is, and what must not be in the image.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::path::Path;

fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

// The instructions, each on one line, by stage.
fn stages(dockerfile: &str) -> Vec<Vec<String>> {
    let lines = dockerfile.lines().filter(|line| !line.starts_with('#'));
    let joined = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    let mut stages: Vec<Vec<String>> = Vec::new();
    for line in joined.lines().filter(|line| !line.trim().is_empty()) {
        if line.starts_with("FROM ") {
            stages.push(Vec::new());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        stages.last_mut().unwrap().push(words.join(" "));
    }
    stages
}

fn dockerfile() -> Vec<Vec<String>> {
    stages(&text("Dockerfile"))
}

// The members of the workspace, the package at the root aside: folder and name.
fn members() -> Vec<(String, String)> {
    let manifest = text("Cargo.toml");
    let line = manifest
        .lines()
        .find(|line| line.starts_with("members = "))
        .unwrap();
    let folders = line.split('"').skip(1).step_by(2);
    let name = |folder: &str| {
        let manifest = text(&format!("{folder}/Cargo.toml"));
        let name = manifest
            .lines()
            .find_map(|line| line.strip_prefix("name = "));
        name.unwrap().trim_matches('"').to_owned()
    };
    folders
        .map(|folder| (folder.to_owned(), name(folder)))
        .collect()
}

// What must be so, and is not.
fn breaches(dockerfile: &[Vec<String>]) -> Vec<String> {
    let mut found = Vec::new();
    let mut must = |is_so: bool, what: String| {
        if !is_so {
            found.push(what);
        }
    };
    let [build, .., last] = dockerfile else {
        return vec!["found fewer stages than two".into()];
    };
    let position = |line: &str| build.iter().position(|found| found == line);
    let first_build = build.iter().position(|line| line.contains("cargo build"));
    let clean = build.iter().find(|line| line.contains("cargo clean"));
    for (folder, name) in members() {
        let manifest = format!("COPY {folder}/Cargo.toml {folder}/");
        must(
            position(&manifest).is_some_and(|at| Some(at) < first_build),
            format!("found no {manifest:?} before the dependencies are built"),
        );
        let sources = format!("COPY {folder}/src {folder}/src");
        must(
            position(&sources).is_some_and(|at| Some(at) > first_build),
            format!("found no {sources:?} after the dependencies are built"),
        );
        let cleaned = format!("--package {name}");
        must(
            clean.is_some_and(|line| format!("{line} ").contains(&format!("{cleaned} "))),
            format!("found no {cleaned:?} in `cargo clean`: its sources may count as built"),
        );
        let bare = format!(" {folder}/Cargo.toml");
        must(
            build
                .iter()
                .any(|line| line.starts_with("RUN sh image/bare ") && line.contains(&bare)),
            format!("found no empty sources for {folder}"),
        );
    }
    let cargo = build.iter().filter(|line| line.contains("cargo "));
    for line in cargo {
        must(line.contains("--locked"), format!("{line}: not locked"));
    }
    for line in dockerfile.iter().flatten() {
        let image = line.strip_prefix("FROM ").unwrap_or_default();
        let host = image.split_once('/').map_or("", |(host, _)| host);
        must(
            !host.contains(['.', ':']) && host != "localhost" && !line.contains("://"),
            format!("{line}: found a host"),
        );
    }
    for line in dockerfile.iter().skip(1).flatten() {
        must(
            !line.contains("cmake") && !line.contains("apt-get"),
            format!("{line}: found a tool outside the build stage"),
        );
    }
    must(last[0] == "FROM scratch", format!("{}: not bare", last[0]));
    let user = last.iter().find_map(|line| line.strip_prefix("USER "));
    let ids = user.and_then(|user| user.split_once(':'));
    let is_other = |id: &str| id.parse::<u32>().is_ok_and(|id| id > 0);
    must(
        ids.is_some_and(|(user, group)| is_other(user) && is_other(group)),
        format!("found the user {user:?}, allowed are numbers above 0, which Kubernetes can judge"),
    );
    for word in ["HEALTHCHECK ", "ENTRYPOINT [", "CMD [", "EXPOSE ", "LABEL "] {
        must(
            last.iter().any(|line| line.starts_with(word)),
            format!("found no {word}"),
        );
    }
    found
}

#[test]
fn the_image_is_built_as_it_must_be() {
    assert_eq!(breaches(&dockerfile()), [""; 0]);
}

#[test]
fn each_breach_is_found() {
    let good = text("Dockerfile");
    for (from, to) in [
        ("COPY sim/Cargo.toml sim/\n", ""),
        ("COPY filters/src filters/src\n", ""),
        (" --package greylag-sim\n", "\n"),
        (
            "image/bare Cargo.toml filters/Cargo.toml",
            "image/bare Cargo.toml",
        ),
        ("cargo build --locked", "cargo build"),
        ("FROM rust:", "FROM registry.example/rust:"),
        (
            "FROM build AS root\n",
            "FROM build AS root\nRUN cmake --version\n",
        ),
        ("FROM scratch", "FROM debian:bookworm"),
        ("USER 65532:65532\n", ""),
        ("USER 65532:65532", "USER 0:0"),
        ("USER 65532:65532", "USER greylag"),
        ("HEALTHCHECK ", "# HEALTHCHECK "),
    ] {
        assert!(good.contains(from), "{from}");
        let bad = good.replace(from, to);
        assert!(!breaches(&stages(&bad)).is_empty(), "{from:?} as {to:?}");
    }
}

#[test]
fn versions_are_those_of_the_repository() {
    let toolchain = text("rust-toolchain.toml");
    let channel = toolchain
        .lines()
        .find_map(|line| line.strip_prefix("channel = "))
        .unwrap();
    let base = format!("FROM rust:{}-bookworm AS build", channel.trim_matches('"'));
    let stages = dockerfile();
    assert_eq!(stages[0][0], base);
    let version = format!("ARG VERSION={}", env!("CARGO_PKG_VERSION"));
    assert!(stages.last().unwrap().contains(&version), "no {version}");
}

#[test]
fn what_is_copied_is_sent_to_the_build_and_there() {
    let ignore = text(".dockerignore");
    let sent: Vec<&str> = ignore
        .lines()
        .filter_map(|line| line.strip_prefix('!'))
        .collect();
    let mut copied = Vec::new();
    for line in dockerfile().iter().flatten() {
        let Some(words) = line.strip_prefix("COPY ") else {
            continue;
        };
        if words.contains("--from=") {
            continue;
        }
        let words: Vec<&str> = words.split(' ').collect();
        let (_, sources) = words.split_last().unwrap();
        copied.extend(sources.iter().map(|source| (*source).to_owned()));
    }
    copied.sort();
    let mut sent: Vec<String> = sent.into_iter().map(str::to_owned).collect();
    sent.sort();
    assert_eq!(copied, sent, "what is copied, and what .dockerignore sends");
    for path in copied {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        assert!(path.exists(), "{}", path.display());
    }
}
