//! Any bytes as an overlay of a state file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| greylag_filters::layers::fuzz_overlay(bytes));
