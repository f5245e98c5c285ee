//! Any bytes as the beginning of a connection from a load balancer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| greylag_filters::proxy_protocol::fuzz_proxy_protocol(bytes));
