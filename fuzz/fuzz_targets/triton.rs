//! Any bytes as Triton's requests, answers and streams.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| greylag_filters::triton::fuzz_triton(bytes));
