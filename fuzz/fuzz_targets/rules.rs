//! Any bytes as rules in JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| greylag_filters::rules::fuzz_rules_json(bytes));
