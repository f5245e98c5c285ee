//! Any bytes as trace headers.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| greylag_filters::trace::fuzz_trace(bytes));
