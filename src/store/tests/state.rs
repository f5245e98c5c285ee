//! What outlives the process, and what becomes of a file that cannot be used.

use std::path::PathBuf;

use super::super::begin::Beginning;
use super::super::state::StateFile;
use super::*;

// A directory of its own, gone at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("greylag-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn state(&self) -> PathBuf {
        self.0.join("state.json")
    }

    fn begin(&self, rules: &Rules) -> Store {
        let at = Moment::at(2000);
        Store::begin(Beginning {
            rules,
            is_usable: true,
            file: hex(rules.hash()),
            state: Some(StateFile::open(&self.state()).unwrap()),
            at,
            boot: 7,
        })
        .unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_was_set_outlives_the_process() {
    let directory = Directory::new("outlives");
    let store = directory.begin(&rules(10));
    assert_eq!((store.current().version, in_force(&store)), (1, 10));
    store.change(base(20)).unwrap();
    let done = store.change(overlay(force(false))).unwrap();
    assert_eq!(done.is_saved, Some(true));
    drop(store);
    // The same file: the base that was put on it counts.
    let store = directory.begin(&rules(10));
    assert_eq!((store.current().version, in_force(&store)), (4, 20));
    assert!(!store.current().force_is_on(0));
    drop(store);
    // Another file: it counts, and the overlay lies on it.
    let store = directory.begin(&rules(30));
    assert_eq!(
        (in_force(&store), store.current().source),
        (30, Source::File)
    );
    assert!(!store.current().force_is_on(0));
    assert_eq!(
        directory.names(),
        ["state.json", "state.json.before", "state.json.lock"]
    );
}

#[test]
fn two_processes_do_not_share_a_state_file() {
    let directory = Directory::new("shared");
    let _store = directory.begin(&rules(10));
    let fault = StateFile::open(&directory.state()).unwrap_err().to_string();
    assert!(fault.contains("another Greylag uses it"), "{fault}");
}

#[test]
fn a_state_file_that_cannot_be_used_is_kept_and_the_one_before_counts() {
    let check = |name: &str, content: &str, because: &str| {
        let directory = Directory::new(name);
        let store = directory.begin(&rules(10));
        store.change(base(20)).unwrap();
        store.change(base(30)).unwrap();
        drop(store);
        std::fs::write(directory.state(), content).unwrap();
        let found = StateFile::open(&directory.state()).unwrap().read();
        assert!(found.faults[0].contains(because), "{:?}", found.faults);
        std::fs::remove_file(directory.0.join("state.json.unusable-1")).unwrap();
        let store = directory.begin(&rules(10));
        assert_eq!(
            (in_force(&store), store.current().version),
            (20, 3),
            "{name}"
        );
        drop(store);
        let kept = std::fs::read_to_string(directory.0.join("state.json.unusable-1"));
        assert_eq!(kept.unwrap(), content);
        // The start has written a sound one.
        assert_eq!(in_force(&directory.begin(&rules(10))), 20);
    };
    check("empty", "", "line 1 column 0");
    check("garbage", "{\"format\":1,\"vers", "at line 1 column 17");
    check(
        "newer",
        r#"{"format":2,"version":9,"new":true}"#,
        "found format 2, as other versions of Greylag write",
    );
    check(
        "strange",
        r#"{"format":1,"version":9,"new":true}"#,
        "it is not what Greylag writes there",
    );
}

#[test]
fn without_any_usable_state_the_file_counts() {
    let directory = Directory::new("nothing");
    let store = directory.begin(&rules(10));
    store.change(base(20)).unwrap();
    drop(store);
    std::fs::write(directory.state(), "x").unwrap();
    std::fs::write(directory.0.join("state.json.before"), "y").unwrap();
    let store = directory.begin(&rules(10));
    assert_eq!((in_force(&store), store.current().version), (10, 1));
    assert!(
        directory
            .names()
            .contains(&"state.json.unusable-2".to_owned())
    );
    drop(store);
    // Who removes it begins anew, whatever else is there.
    std::fs::remove_file(directory.state()).unwrap();
    assert_eq!(directory.begin(&rules(10)).current().version, 1);
}

#[test]
fn a_base_that_no_longer_compiles_is_kept_aside() {
    let directory = Directory::new("stale");
    let store = directory.begin(&rules(10));
    store.change(base(20)).unwrap();
    drop(store);
    let text = std::fs::read_to_string(directory.state()).unwrap();
    let broken = text.replace(
        "\"default_engine\":\"stable\"",
        "\"default_engine\":\"gone\"",
    );
    std::fs::write(directory.state(), &broken).unwrap();
    let store = directory.begin(&rules(10));
    assert_eq!((in_force(&store), store.current().version), (10, 3));
    let kept = std::fs::read_to_string(directory.0.join("state.json.unusable-1"));
    assert_eq!(kept.unwrap(), broken);
}

#[test]
fn what_cannot_be_written_is_in_force_and_written_later() {
    let directory = Directory::new("full");
    let store = directory.begin(&rules(10));
    // A directory stands where the next file would be written.
    let next = directory.0.join("state.json.next");
    std::fs::create_dir(&next).unwrap();
    let done = store.change(base(20)).unwrap();
    assert_eq!((done.is_saved, in_force(&store)), (Some(false), 20));
    assert!(store.unsaved().unwrap().contains("state.json"));
    std::fs::remove_dir(&next).unwrap();
    store.save_again();
    assert_eq!(store.unsaved(), None);
    drop(store);
    assert_eq!(in_force(&directory.begin(&rules(10))), 20);
}

// A start with a file that cannot be used, of this text.
fn begin_unusable(directory: &Directory, text: &str) -> Store {
    let mut pass_through = rules(10);
    pass_through.splits.clear();
    Store::begin(Beginning {
        rules: &pass_through,
        is_usable: false,
        file: text.into(),
        state: Some(StateFile::open(&directory.state()).unwrap()),
        at: Moment::at(2000),
        boot: 7,
    })
    .unwrap()
}

#[test]
fn what_waits_for_a_file_comes_back_with_it() {
    let check = |name: &str, file: Rules, expected: (u32, Source)| {
        let directory = Directory::new(name);
        let store = directory.begin(&rules(10));
        store.change(base(20)).unwrap();
        store.change(overlay(force(false))).unwrap();
        drop(store);
        for _ in 0..2 {
            let store = begin_unusable(&directory, "text 1");
            assert_eq!(store.current().source, Source::PassThrough);
            assert!(store.current().rules.written().splits.is_empty());
            assert!(store.change(overlay(force(true))).is_err());
            // A second start without a usable file loses nothing either.
            assert_eq!(store.current().layers.overlays.len(), 1);
        }
        let store = begin_unusable(&directory, "text 1");
        store.change(ask(Wish::File(Box::new(file)))).unwrap();
        assert_eq!(
            (in_force(&store), store.current().source),
            expected,
            "{name}"
        );
        assert!(!store.current().force_is_on(0), "{name}");
    };
    check("waits-same", rules(10), (20, Source::Api));
    check("waits-other", rules(30), (30, Source::File));
}

#[test]
fn what_is_put_while_the_file_cannot_be_used_counts_until_it_changes() {
    let directory = Directory::new("put-unusable");
    let store = begin_unusable(&directory, "text 1");
    let done = store.change(base(20)).unwrap();
    assert_eq!(
        (done.is_saved, store.current().source),
        (Some(true), Source::Api)
    );
    drop(store);
    let store = begin_unusable(&directory, "text 1");
    assert_eq!(
        (in_force(&store), store.current().source),
        (20, Source::Api)
    );
    drop(store);
    let store = begin_unusable(&directory, "text 2");
    assert_eq!(store.current().source, Source::PassThrough);
    drop(store);
    let store = directory.begin(&rules(30));
    assert_eq!(
        (in_force(&store), store.current().source),
        (30, Source::File)
    );
}

#[test]
fn a_state_that_can_neither_be_used_nor_kept_is_not_overwritten() {
    let directory = Directory::new("frozen");
    drop(directory.begin(&rules(10)));
    std::fs::write(directory.state(), "mine").unwrap();
    for number in 1..1000 {
        std::fs::write(
            directory.0.join(format!("state.json.unusable-{number}")),
            "",
        )
        .unwrap();
    }
    let store = directory.begin(&rules(10));
    assert!(store.unsaved().unwrap().contains("could not be kept"));
    assert_eq!(store.change(base(20)).unwrap().is_saved, Some(false));
    assert_eq!(std::fs::read_to_string(directory.state()).unwrap(), "mine");
}

#[test]
fn what_ended_while_nobody_served_does_not_come_back() {
    let directory = Directory::new("ended");
    let store = directory.begin(&rules(10));
    let until = Some(Moment::at(1500));
    store
        .change(ask(Wish::Overlay(weights(50), until)))
        .unwrap();
    store.change(overlay(force(false))).unwrap();
    drop(store);
    // It begins at 2000.
    let store = directory.begin(&rules(10));
    assert_eq!(
        (in_force(&store), store.current().layers.overlays.len()),
        (10, 1)
    );
    let what = "start with the file's rules, after version 3, without weights:s that has ended";
    assert_eq!(store.history()[0].what, what);
}
