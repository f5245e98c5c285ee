//! Any bytes as a file of tokens, and as a token.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| greylag_filters::tokens::fuzz_tokens(bytes));
