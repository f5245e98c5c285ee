//! Any bytes as what the kernel says of control groups.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| greylag_filters::cgroup::fuzz_cgroup(bytes));
