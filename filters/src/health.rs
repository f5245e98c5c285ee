//! Whether an engine is up, by what is seen of it.
//!
//! In: signs of life and of death, each with when it was seen. Out: up, down or half-open, and who is let through. Nothing
//! is asked here, and no time passes by itself.
//!
//! ```text
//!          3 failures in a row               a trial, or a success
//!     up ──────────────────────► down ─────────────────────────────► half-open
//!      ▲                          ▲              a failure            │  │
//!      │                          └───────────────────────────────────┘  │
//!      └─────────────────────────────────────────────────────────────────┘
//!                             2 successes in a row
//! ```

use std::time::Duration;

use crate::meter::Offset;
use crate::rules::engine::Kind;

/// So many failures in a row take an engine down.
pub const FAILURES: u32 = 3;
/// So many successes in a row bring it back.
pub const SUCCESSES: u32 = 2;
/// While an engine is down one exchange is let through each time so much has passed: a trial.
pub const TRICKLE: Duration = Duration::from_secs(3);

/// Whether an engine is up.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum State {
    /// Everything is let through.
    Up,
    /// Nothing is let through but a trial now and then.
    Down,
    /// The same, and a trial is under way or the last sign was a success.
    HalfOpen,
}

impl State {
    /// A word for people and programs.
    pub fn label(self) -> &'static str {
        match self {
            State::Up => "up",
            State::Down => "down",
            State::HalfOpen => "half_open",
        }
    }
}

/// What an engine showed of itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sign {
    /// It does what is asked of it.
    Alive,
    /// It does not, or is not there.
    Dead,
}

/// What the status of an answer to an exchange says. 429 and 503 are load; what other errors come of is not known.
pub fn of_answer(status: u16) -> Option<Sign> {
    (status < 500 && status != 429).then_some(Sign::Alive)
}

/// What the status of an answer to a probe says. 429 is load. 503 is not, where a path says nothing but health: vLLM answers so
/// once its worker has died. Of a server of an unknown kind (`openai`) any answer will do.
pub fn of_probe(kind: Kind, status: u16) -> Option<Sign> {
    match (kind, status) {
        (Kind::Openai, _) | (_, 200..=299) => Some(Sign::Alive),
        (_, 429) => None,
        (_, _) => Some(Sign::Dead),
    }
}

/// The health of one engine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Health {
    state: State,
    since: Offset,
    // signs of the kind that would end the state, in a row; 0 <= run < FAILURES or SUCCESSES
    run: u32,
    // when a trial was let through last, or the state became `Down`
    tried: Offset,
    // the first failure of this run, or of the time since the engine went down
    failed: Option<Offset>,
    // whether somebody was already served elsewhere since then
    replaced: bool,
}

impl Default for Health {
    /// Up, since the beginning.
    fn default() -> Health {
        Health {
            state: State::Up,
            since: Duration::ZERO,
            run: 0,
            tried: Duration::ZERO,
            failed: None,
            replaced: false,
        }
    }
}

impl Health {
    /// Whether it is up.
    pub fn state(&self) -> State {
        self.state
    }

    /// When this state began.
    pub fn since(&self) -> Offset {
        self.since
    }

    /// Whether it is up and nothing has failed since it last did well: another success would change nothing.
    pub fn is_plain(&self) -> bool {
        self.state == State::Up && self.run == 0 && self.failed.is_none()
    }

    /// Takes a sign in; true if the state has changed.
    pub fn note(&mut self, sign: Sign, now: Offset) -> bool {
        match sign {
            Sign::Alive => self.live(now),
            Sign::Dead => self.fail(now),
        }
    }

    fn live(&mut self, now: Offset) -> bool {
        match self.state {
            State::Up => {
                (self.run, self.failed, self.replaced) = (0, None, false);
                false
            }
            State::Down | State::HalfOpen => {
                self.run += 1;
                if self.run >= SUCCESSES {
                    (self.failed, self.replaced) = (None, false);
                    self.turn(State::Up, now)
                } else {
                    self.half_open(now)
                }
            }
        }
    }

    fn fail(&mut self, now: Offset) -> bool {
        self.failed.get_or_insert(now);
        match self.state {
            State::Up => {
                self.run += 1;
                if self.run < FAILURES {
                    return false;
                }
                self.tried = now;
                self.turn(State::Down, now)
            }
            State::HalfOpen => self.turn(State::Down, now),
            State::Down => false,
        }
    }

    /// Whether an exchange that begins now is let through. While the engine is not up that is a trial, and the next one waits.
    pub fn admits(&mut self, now: Offset) -> bool {
        if self.state == State::Up {
            return true;
        }
        if now.saturating_sub(self.tried) < TRICKLE {
            return false;
        }
        self.tried = now;
        self.half_open(now);
        true
    }

    /// An exchange that was this engine's has been served by another one. The first time since this one began to fail: how
    /// long that took.
    pub fn replaced(&mut self, now: Offset) -> Option<Duration> {
        let failed = self.failed.filter(|_| !self.replaced)?;
        self.replaced = true;
        Some(now.saturating_sub(failed))
    }

    fn half_open(&mut self, now: Offset) -> bool {
        self.state == State::Down && {
            self.state = State::HalfOpen;
            self.since = now;
            true
        }
    }

    fn turn(&mut self, state: State, now: Offset) -> bool {
        (self.state, self.since, self.run) = (state, now, 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(seconds: u64) -> Offset {
        Duration::from_secs(seconds)
    }

    // Signs in words, a second apart: `+` alive, `-` dead, `?` an exchange asks. Out: the states after each.
    fn check(signs: &str, states: &str) {
        let mut health = Health::default();
        let found: String = signs
            .chars()
            .zip(1..)
            .map(|(sign, second)| {
                match sign {
                    '+' => drop(health.note(Sign::Alive, at(second))),
                    '-' => drop(health.note(Sign::Dead, at(second))),
                    _ => drop(health.admits(at(second))),
                }
                match health.state() {
                    State::Up => 'u',
                    State::Down => 'd',
                    State::HalfOpen => 'h',
                }
            })
            .collect();
        assert_eq!(found, states, "{signs}");
    }

    #[test]
    fn three_failures_in_a_row_are_down_and_two_successes_up() {
        check("--+--+", "uuuuuu");
        check("---++", "uudhu");
        check("---+-++", "uudhdhu");
        check("-----", "uuddd");
        // After its return the count begins anew.
        check("---++--+---", "uudhuuuuuud");
    }

    #[test]
    fn a_trial_is_let_through_now_and_then() {
        check("---??????", "uudddhhhh");
        check("---???-++", "uudddhdhu");
        let mut health = Health::default();
        for second in 1..=3 {
            health.note(Sign::Dead, at(second));
        }
        let admitted: Vec<u64> = (4..=20)
            .filter(|second| health.admits(at(*second)))
            .collect();
        assert_eq!(admitted, [6, 9, 12, 15, 18]);
    }

    #[test]
    fn only_the_first_who_is_served_elsewhere_ends_the_failover() {
        let mut health = Health::default();
        assert_eq!(health.replaced(at(1)), None);
        health.note(Sign::Dead, at(2));
        assert!(!health.is_plain());
        assert_eq!(health.replaced(at(5)), Some(at(3)));
        assert_eq!(health.replaced(at(6)), None);
        health.note(Sign::Alive, at(7));
        assert!(health.is_plain());
        assert_eq!(health.replaced(at(8)), None);
        health.note(Sign::Dead, at(9));
        assert_eq!(health.replaced(at(9)), Some(at(0)));
    }

    #[test]
    fn load_is_not_death() {
        for status in [429, 500, 502, 503] {
            assert_eq!(of_answer(status), None, "{status}");
        }
        assert_eq!(of_answer(404), Some(Sign::Alive));
        assert_eq!(of_probe(Kind::Vllm, 200), Some(Sign::Alive));
        assert_eq!(of_probe(Kind::Vllm, 429), None);
        assert_eq!(of_probe(Kind::Vllm, 503), Some(Sign::Dead));
        assert_eq!(of_probe(Kind::Triton, 400), Some(Sign::Dead));
        assert_eq!(of_probe(Kind::Openai, 401), Some(Sign::Alive));
    }

    proptest! {
        // Whatever is seen: down comes only of a failure, up only of a success, and every state has a beginning that is not
        // in the future.
        #[test]
        fn states_change_for_a_reason(signs in prop::collection::vec(0_u8..3, 0..200)) {
            let mut health = Health::default();
            for (sign, second) in signs.into_iter().zip(1..) {
                let before = health.state();
                let changed = match sign {
                    0 => health.note(Sign::Alive, at(second)),
                    1 => health.note(Sign::Dead, at(second)),
                    _ => {
                        health.admits(at(second));
                        health.state() != before
                    }
                };
                prop_assert_eq!(changed, health.state() != before);
                if changed {
                    prop_assert_eq!(health.since(), at(second));
                    match health.state() {
                        State::Up => prop_assert_eq!(sign, 0),
                        State::Down => prop_assert_eq!(sign, 1),
                        State::HalfOpen => prop_assert_eq!(before, State::Down),
                    }
                }
            }
        }
    }
}
