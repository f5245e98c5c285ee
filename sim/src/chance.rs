//! Where every draw of the simulator comes from.
//!
//! In: the seed of the settings and what the draw is for. Out: a small generator, the same for the same input.
//! Never: a clock, the operating system's randomness, or one generator shared by two requests.

use rand::SeedableRng;
use rand::rngs::SmallRng;

/// A generator for `purpose`, the same for the same `seed`, `purpose` and `key` on every machine.
pub(crate) fn generator(seed: u64, purpose: &str, key: &[u8]) -> SmallRng {
    SmallRng::seed_from_u64(hash(hash(seed ^ OFFSET, purpose.as_bytes()), key))
}

/// FNV-1a over `bytes`, continued from `state`; its spread is enough, since the result only seeds a generator.
fn hash(state: u64, bytes: &[u8]) -> u64 {
    let mixed = bytes.iter().fold(state, |state, byte| {
        (state ^ u64::from(*byte)).wrapping_mul(PRIME)
    });
    // The length keeps ("ab", "c") apart from ("a", "bc").
    (mixed ^ bytes.len() as u64).wrapping_mul(PRIME)
}

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    #[test]
    fn the_same_input_gives_the_same_draw_and_any_other_a_different_one() {
        let draw = |seed, purpose, key: &[u8]| generator(seed, purpose, key).random::<u64>();
        assert_eq!(draw(1, "text", b"x"), draw(1, "text", b"x"));
        assert_ne!(draw(1, "text", b"x"), draw(2, "text", b"x"));
        assert_ne!(draw(1, "text", b"x"), draw(1, "tokens", b"x"));
        assert_ne!(draw(1, "ab", b"c"), draw(1, "a", b"bc"));
    }
}
