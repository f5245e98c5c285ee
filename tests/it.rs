//! All integration tests, in one binary: a module a subject, real sockets on ports that the system picks.

#[path = "it/answers.rs"]
mod answers;
#[path = "it/bad_requests.rs"]
mod bad_requests;
#[path = "it/basics.rs"]
mod basics;
#[path = "it/bodies.rs"]
mod bodies;
#[path = "it/hand.rs"]
mod hand;
#[path = "it/harness.rs"]
mod harness;
