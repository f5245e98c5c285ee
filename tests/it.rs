//! The integration tests: one binary, a module a subject. They start Greylag in their own process, on ports that the
//! kernel picks, or read the repository's own files.

#[cfg(test)]
mod it {
    mod promtool;
    mod readme;
    mod tidy;
}
