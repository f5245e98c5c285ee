//! Greylag's decisions: bytes, facts, rules, offsets and draws in; values out.
//!
//! Nothing here reads a clock, a socket, a file, the environment or a source of chance, and nothing
//! waits. Whatever a caller needs to know of those comes in as an argument.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic)
)]

#[cfg(test)]
mod capture;
pub mod cause;
pub mod cgroup;
pub mod draw;
pub mod edit;
pub mod eye;
pub mod facts;
pub mod feedback;
pub mod followed;
pub mod forwarded;
pub mod framing;
pub mod grpc;
pub mod health;
pub mod hop;
pub mod hops;
pub mod identity;
pub mod json;
pub mod layers;
pub mod matcher;
pub mod meter;
pub mod outcome;
pub mod protobuf;
pub mod proxy_protocol;
pub mod recognise;
pub mod refusal;
pub mod route;
pub mod rules;
pub mod split;
pub mod sse;
pub mod success;
pub mod tokens;
pub mod trace;
pub mod traffic;
pub mod tries;
pub mod triton;
pub mod units;
pub mod usage_strip;
pub mod written;
