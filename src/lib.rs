//! Greylag.
