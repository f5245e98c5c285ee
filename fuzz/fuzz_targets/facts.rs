//! Any bytes as a request body.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| greylag_filters::facts::fuzz_facts(bytes));
