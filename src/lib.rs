//! Greylag: a sidecar for inference traffic.
//!
//! The library is the whole program but for its allocator; tests start it in their own process.

pub mod admin;
pub mod app;
pub mod budget;
pub mod cli;
pub mod config;
pub mod events;
pub mod exchange;
pub mod files;
pub mod identity;
pub mod listen;
pub mod observe;
pub mod record;
pub mod relay;
pub mod reply;
pub mod side;
pub mod snapshot;
pub mod socket;
pub mod stall;
pub mod store;
pub mod switch;
pub mod telemetry;
pub mod tls;
pub mod upstream;
pub mod wire;
