//! Greylag.
fn main() {}
