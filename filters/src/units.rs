//! Shares, durations, sizes and points in time as people write them: always with their unit, never a bare number.
//!
//! In: text such as `10%`, `1m30s`, `64KiB`. Out: checked values that print back to text which reads as
//! the same value.

mod moment;
mod period;
mod share;
mod size;

pub use crate::written::Misfit;
pub use moment::Moment;
pub use period::Period;
pub use share::Share;
pub use size::Size;

#[cfg(test)]
mod tests;
