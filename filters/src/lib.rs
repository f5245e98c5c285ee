//! Greylag's decisions: bytes, facts, rules, offsets and draws in; values out.
//!
//! In: what an exchange says and what came over the wire, in any cutting. Out: plain values.
//! Nothing here reads a clock, draws a chance, opens a socket or waits.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic)
)]

#[cfg(test)]
mod capture;
pub mod edit;
pub mod facts;
pub mod json;
pub mod meter;
pub mod outcome;
pub mod route;
pub mod sse;
pub mod usage_strip;
