//! Any bytes as a chunked body, and how it is cut.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| greylag_filters::framing::fuzz_framing(bytes));
