//! Any bytes as a gRPC body, and how it is cut.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| greylag_filters::grpc::fuzz_grpc(bytes));
