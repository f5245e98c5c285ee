//! Any bytes as the beginning of an answer whose request is not known.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| greylag_filters::recognise::fuzz_recognise(bytes));
