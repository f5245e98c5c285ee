//! The choices of a legacy completions stream.
//!
//! In: a member of a choice. Out: whether the choice bears a token. There is no role event; a choice with an empty
//! `text` is a token that decodes to nothing and counts, as `vllm bench serve` has it.

use super::answer::Choice;
use crate::json::{Cursor, Fault, Kind};

pub(super) fn member(
    cursor: &mut Cursor<'_>,
    key: &[u8],
    choice: &mut Choice,
) -> Result<(), Fault> {
    if key != b"text" || cursor.kind()? != Kind::String {
        cursor.skip()?;
        return Ok(());
    }
    let text = cursor.string()?;
    *choice = Choice {
        bears_tokens: true,
        shows_text: !text.is_empty(),
    };
    Ok(())
}
