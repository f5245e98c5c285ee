//! Chance as a value.
//!
//! In: a seed, the name of the rule that asks, the id of the exchange. Out: a number that looks random and
//! is the same whenever the three are the same, so that what chance did can be explained and replayed.
//! Two rules that look at one exchange draw apart from each other.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What chance says to one rule about one exchange: a number spread evenly over 64 bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Draw(u64);

impl Draw {
    /// The draw of a rule for an exchange: `XXH3_64(id, seed: XXH3_64(rule, seed))`.
    ///
    /// The inner hash seeds the outer one, so that no rule and id can be cut differently into the same draw.
    pub fn new(seed: u64, rule: &str, id: &[u8]) -> Draw {
        Draw(xxh3_64_with_seed(
            id,
            xxh3_64_with_seed(rule.as_bytes(), seed),
        ))
    }

    /// All 64 bits.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The draw as a number from 0, included, to 1, excluded, in steps of 2⁻⁵³.
    pub fn ratio(self) -> f64 {
        #[expect(
            clippy::cast_precision_loss,
            reason = "53 bits are left, and a double holds 53"
        )]
        let steps = (self.0 >> 11) as f64;
        steps / (1_u64 << 53) as f64
    }

    /// The draw as a whole number below `n`; 0 if `n` is 0.
    pub fn below(self, n: u64) -> u64 {
        // The high half of a product of two 64-bit numbers is below either of them.
        ((u128::from(self.0) * u128::from(n)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Draw;

    #[test]
    fn the_same_three_give_the_same_draw() {
        let draw = Draw::new(1, "split", b"id");
        assert_eq!(draw, Draw::new(1, "split", b"id"));
        assert_ne!(draw, Draw::new(2, "split", b"id"));
        assert_ne!(draw, Draw::new(1, "spli", b"tid"));
        assert_ne!(draw, Draw::new(1, "mirror", b"id"));
    }

    /// From another implementation (Python's `xxhash`): a draw that was logged must be replayable for ever.
    #[test]
    fn the_recipe_foretells_the_draw() {
        assert_eq!(
            Draw::new(42, "default", b"req-1").bits(),
            0x8271_e009_1270_1bc6
        );
    }

    #[test]
    fn the_ends_of_the_range_are_held() {
        assert_eq!(Draw(u64::MAX).below(10), 9);
        assert_eq!(Draw(0).below(10), 0);
        assert_eq!(Draw(u64::MAX).below(0), 0);
        assert_eq!(Draw(0).ratio(), 0.0);
        assert!(Draw(u64::MAX).ratio() < 1.0);
    }

    #[test]
    fn two_rules_draw_apart() {
        // Were they dependent, the count would be near 0 or near 50,000.
        let both = (0..100_000_u32)
            .filter(|n| {
                let id = n.to_string();
                Draw::new(3, "a", id.as_bytes()).ratio() < 0.5
                    && Draw::new(3, "b", id.as_bytes()).ratio() < 0.5
            })
            .count();
        // 3 · √(100000 · 0.25 · 0.75) = 411
        assert!(both.abs_diff(25_000) < 411, "{both}");
    }
}
