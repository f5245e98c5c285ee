//! The samples that people copy.
