//! Weighted rendezvous hashing: a key picks one of several, in proportion to their weights.
//!
//! In: a key's hash and the stakes, each a name and a weight. Out: one of the stakes. The same key, names and
//! weights pick the same one on every machine and in every run; the order of the stakes does not matter.
//! Nothing is kept between picks.
//!
//! The hash, for those who want to foretell a pick elsewhere (`XXH3_64` with its 64-bit seed):
//!
//! ```text
//! key   = XXH3_64(value, seed: XXH3_64(salt, seed: 0))        or the 64 bits of the draw
//! h     = XXH3_64(key as 8 bytes, little endian, seed: XXH3_64(name, seed: 0))
//! u     = (⌊h / 2¹²⌋ + ½) / 2⁵²                               so 0 < u < 1
//! clock = −ln(u) / weight                                     the least clock wins; weight 0 never does
//! ```
//!
//! `value` is the bytes of the header or of the body's text, or the address in network order. The kind of key
//! is left out on purpose: a user who is named now in a header and now in the body stays where they are.
//!
//! Clocks are exponentially distributed with the weight as their rate, so each stake wins with the probability
//! weight/sum. Raising one weight shortens that one clock and leaves the others as they are: keys move to
//! that stake and nowhere else, and only as many as its share grows by.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::Weight;
use crate::draw::Draw;

/// The hash of what picks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Key(u64);

impl From<Draw> for Key {
    fn from(draw: Draw) -> Key {
        Key(draw.bits())
    }
}

/// What keys are hashed with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Salt(u64);

impl Salt {
    pub(super) fn new(salt: &str) -> Salt {
        Salt(xxh3_64(salt.as_bytes()))
    }

    pub(super) fn key(self, value: &[u8]) -> Key {
        Key(xxh3_64_with_seed(value, self.0))
    }
}

/// A name and its weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stake {
    name: u64,
    weight: f64,
}

impl Stake {
    pub(super) fn new(name: &str, weight: Weight) -> Stake {
        Stake {
            name: xxh3_64(name.as_bytes()),
            weight: weight.get().into(),
        }
    }

    /// When this stake's clock rings for a key; never for a weight of 0.
    fn clock(&self, key: Key) -> f64 {
        let hash = xxh3_64_with_seed(&key.0.to_le_bytes(), self.name);
        minus_ln(hash) / self.weight
    }
}

/// The one that a key picks; none if there is none of a weight above 0.
pub(super) fn choose<'a, T>(
    key: Key,
    all: &'a [T],
    stake: impl Fn(&'a T) -> (&'a Stake, &'a str),
) -> Option<&'a T> {
    let mut first: Option<(&T, f64, &str)> = None;
    for one in all {
        let (stake, name) = stake(one);
        if stake.weight == 0.0 {
            continue;
        }
        let clock = stake.clock(key);
        // Equal clocks are next to impossible; the name decides, so that the order of the stakes does not.
        if first.is_none_or(|(_, least, other)| clock < least || (clock == least && name < other)) {
            first = Some((one, clock, name));
        }
    }
    first.map(|(one, _, _)| one)
}

/// −ln(u) for u = (⌊hash / 2¹²⌋ + ½) / 2⁵².
///
/// The platform's `ln` may differ in the last bit from machine to machine, and then two pods could send one key
/// to two engines. This one is made of additions, multiplications and divisions, which IEEE 754 rounds alike
/// everywhere. With u = m · 2⁻ᵉ and √½ ≤ m < √2: −ln u = e · ln 2 − ln m, and ln m is the series
/// 2 (s + s³/3 + s⁵/5 + …) of s = (m − 1)/(m + 1), where s² < 0.0295 makes the terms after s²¹ smaller than what a
/// double can hold.
fn minus_ln(hash: u64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "52 bits and a half fit the 53 of a double"
    )]
    let mut m = ((hash >> 12) as f64 + 0.5) / (1_u64 << 52) as f64;
    // m has a leading one at 2⁻¹ for e = 0; counted on the integer, and 2ᵉ is exact.
    let e = (hash >> 12).leading_zeros().saturating_sub(12).min(52);
    m *= (1_u64 << e) as f64;
    let mut e = f64::from(e);
    if m < std::f64::consts::FRAC_1_SQRT_2 {
        m *= 2.0;
        e += 1.0;
    }
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for odd in [21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = sum * square + 1.0 / odd;
    }
    e * std::f64::consts::LN_2 - 2.0 * s * sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Salt, Stake, choose, minus_ln};
    use crate::split::Weight;

    fn pick<'a>(salt: &str, value: &[u8], weights: &[(&'a str, u64)]) -> Option<&'a str> {
        let stakes: Vec<_> = weights
            .iter()
            .map(|(name, weight)| (*name, Stake::new(name, Weight::try_from(*weight).unwrap())))
            .collect();
        choose(Salt::new(salt).key(value), &stakes, |(name, stake)| {
            (stake, name)
        })
        .map(|(name, _)| *name)
    }

    /// The picks are a promise: a client that follows the recipe above must foretell them, and an upgrade must
    /// not deal users anew. These come from another implementation (Python's `xxhash` and `math.log`).
    #[test]
    fn the_recipe_foretells_the_pick() {
        let weights = [("stable", 90), ("candidate", 10)];
        let on_candidate: Vec<_> = (1..=24)
            .filter(|n| {
                let user = format!("user-{n}");
                pick("default", user.as_bytes(), &weights) == Some("candidate")
            })
            .collect();
        assert_eq!(on_candidate, [3, 5, 8, 12, 17]);
        let even = [("stable", 1), ("candidate", 1)];
        assert_eq!(pick("default", &[10, 0, 0, 1], &even), Some("candidate"));
        assert_eq!(pick("default", &[10, 0, 0, 2], &even), Some("candidate"));
    }

    #[test]
    fn nothing_is_picked_of_nothing() {
        assert_eq!(pick("s", b"key", &[]), None);
        assert_eq!(pick("s", b"key", &[("a", 0)]), None);
        assert_eq!(pick("s", b"key", &[("a", 0), ("b", 1)]), Some("b"));
    }

    fn check(hash: u64, expected: f64) {
        let found = minus_ln(hash);
        assert!(
            (found - expected).abs() <= 4e-16 * expected,
            "{hash:x}: {found:e}, {expected:e}"
        );
    }

    #[test]
    fn the_logarithm_is_right_at_its_ends_and_seams() {
        check(0, 36.736_800_569_677_1);
        check(1 << 12, 35.638_188_281_009_0);
        check(0x1234_5678_9abc_def0, 2.643_511_679_964_640_3);
        check(0x8000_0000_0000_0000, 0.693_147_180_559_945_1);
        check(0xb504_f333_f9de_6484, 0.346_573_590_279_972_6);
        check(u64::MAX, 1.110_223_024_625_156_5e-16);
    }

    proptest! {
        #[test]
        fn the_logarithm_agrees_with_the_platform(hash: u64, shift in 0_u32..64) {
            // Shifted, so that small arguments come up as often as large ones.
            let hash = hash >> shift;
            let u = ((hash >> 12) as f64 + 0.5) / (1_u64 << 52) as f64;
            let (found, expected) = (minus_ln(hash), -u.ln());
            prop_assert!(found > 0.0 && (found - expected).abs() <= 1e-15 * expected);
        }
    }
}
