//! What the kernel says of a control group's CPU quota.
//!
//! In: the text of `/proc/self/cgroup`, and of a `cpu.stat`. Out: where to look for the latter, and how often and for how long
//! the group was throttled. Versions 1 and 2 are read (cgroups(7), and the kernel's `cgroup-v2` and `sched-bwc`).

use std::time::Duration;

/// How often and for how long all tasks of a group had to wait since it was made, its quota being spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    /// Periods in which that happened.
    pub periods: u64,
    /// For how long.
    pub time: Duration,
}

/// The files below `/sys/fs/cgroup` that may be the process's `cpu.stat`, likely ones first. In a namespace of its own, as in
/// most containers, its group is the root.
pub fn places(own: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        // What leads out of the tree is no place below it.
        if path.split('/').any(|step| step == "..") {
            continue;
        }
        let path = path.trim_end_matches('/');
        if controllers.is_empty() {
            found.push(format!("{path}/cpu.stat"));
            found.push(format!("unified{path}/cpu.stat"));
        } else if controllers.split(',').any(|controller| controller == "cpu") {
            found.push(format!("{controllers}{path}/cpu.stat"));
            found.push(format!("cpu{path}/cpu.stat"));
        }
    }
    found.extend(["cpu.stat", "cpu/cpu.stat"].map(String::from));
    found
        .iter_mut()
        .for_each(|place| *place = place.trim_start_matches('/').to_owned());
    found
}

/// Reads a `cpu.stat`. None: it says nothing of a quota.
pub fn throttled(stat: &str) -> Option<Throttled> {
    let mut found = Throttled::default();
    let mut has_quota = false;
    for line in stat.lines() {
        let Some((name, value)) = line.split_once(' ') else {
            continue;
        };
        let Ok(value) = value.trim().parse() else {
            continue;
        };
        match name {
            "nr_throttled" => (found.periods, has_quota) = (value, true),
            "throttled_usec" => found.time = Duration::from_micros(value),
            "throttled_time" => found.time = Duration::from_nanos(value),
            _ => {}
        }
    }
    has_quota.then_some(found)
}

/// What a fuzzer feeds: any text. Places stay below the tree, and nothing panics.
#[cfg(any(test, fuzzing))]
pub fn fuzz_cgroup(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for place in places(&text) {
        assert!(!place.starts_with('/') && place.ends_with("cpu.stat"));
        assert!(place.split('/').all(|step| step != ".."));
    }
    let _ = throttled(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_looked_for_where_the_kernel_says() {
        let check = |own: &str, expected: &[&str]| {
            let places = places(own);
            assert_eq!(places[..expected.len()], *expected, "{own}");
        };
        check("0::/\n", &["cpu.stat", "unified/cpu.stat", "cpu.stat"]);
        check("0::/kubepods/pod1\n", &["kubepods/pod1/cpu.stat"]);
        check(
            "4:memory:/a\n3:cpu,cpuacct:/a\n1:name=systemd:/\n0::/b\n",
            &[
                "cpu,cpuacct/a/cpu.stat",
                "cpu/a/cpu.stat",
                "b/cpu.stat",
                "unified/b/cpu.stat",
            ],
        );
        check("3:cpu:/../../a\n", &["cpu.stat", "cpu/cpu.stat"]);
        check("nonsense", &["cpu.stat"]);
    }

    #[test]
    fn both_versions_are_read() {
        let check = |stat: &str, expected: Option<(u64, u128)>| {
            let found = throttled(stat).map(|found| (found.periods, found.time.as_micros()));
            assert_eq!(found, expected, "{stat}");
        };
        let two = "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 1500\n";
        check(two, Some((3, 1500)));
        check(
            "nr_periods 9\nnr_throttled 3\nthrottled_time 1500000\n",
            Some((3, 1500)),
        );
        // The root group has no quota.
        check("usage_usec 5\nuser_usec 3\n", None);
        check("nr_throttled many\n", None);
        check("", None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(bytes: Vec<u8>) {
            fuzz_cgroup(&bytes);
        }
    }
}
