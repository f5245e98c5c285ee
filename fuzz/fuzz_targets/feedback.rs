//! Any bytes as a caller's judgement of an answer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| greylag_filters::feedback::fuzz_feedback(bytes));
