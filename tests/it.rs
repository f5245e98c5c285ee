//! All integration tests, in one binary: a module a subject, real sockets on ports that the system picks.

#[path = "it/basics.rs"]
mod basics;
#[path = "it/harness.rs"]
mod harness;
