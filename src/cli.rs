//! Commands.
pub mod api;
pub mod demo;
