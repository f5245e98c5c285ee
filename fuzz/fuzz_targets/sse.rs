//! Any bytes as a stream, and how it is cut.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| greylag_filters::sse::fuzz_sse(bytes));
