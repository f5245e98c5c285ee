//! Note.
/// What a handler notes.
#[derive(Debug, Clone)]
pub struct Note {
    /// v
    pub version: Option<u64>,
    /// r
    pub reason: Option<String>,
}
