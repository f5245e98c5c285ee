//! Any text in any cutting: whether it is JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| greylag_filters::json::fuzz_json_check(bytes));
