//! Greylag as a whole, over real sockets on ports that the kernel picks.

#[path = "it/admin.rs"]
mod admin;
#[path = "it/commands.rs"]
mod commands;
#[path = "it/harness.rs"]
mod harness;
#[path = "it/samples.rs"]
mod samples;
