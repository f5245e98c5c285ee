//! All integration tests, in one binary: a module a subject, real sockets on ports that the system picks.

#[path = "it/basics.rs"]
mod basics;
#[path = "it/churn.rs"]
mod churn;
#[path = "it/drain.rs"]
mod drain;
#[path = "it/gate.rs"]
mod gate;
#[path = "it/harness.rs"]
mod harness;
#[path = "it/injection.rs"]
mod injection;
#[path = "it/leaving.rs"]
mod leaving;
#[path = "it/payload.rs"]
mod payload;
#[path = "it/recorded.rs"]
mod recorded;
#[path = "it/workers.rs"]
mod workers;
