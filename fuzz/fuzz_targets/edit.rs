//! Any bytes as a body to edit.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| greylag_filters::edit::fuzz_edit(bytes));
