//! Any bytes as the fields of proxies.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| greylag_filters::forwarded::fuzz_forwarded(bytes));
