//! Any bytes as an answer, and how it is cut.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| greylag_filters::meter::fuzz_meter(bytes));
