//! Growing delays with a ceiling, and chance that can be replayed.
//!
//! A delay doubles with every relapse up to its ceiling. Chance is a hash of a seed and of what is being
//! decided, so that the same history leads to the same moment: a jitter that differs between runs could not
//! be tested, and one that is equal for all keys would let them come back as a herd.

use std::time::Duration;

use jiff::SignedDuration;

use crate::Timestamp;

/// A delay that doubles from `first` up to `ceiling`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// The delay of step 0.
    pub first: Duration,
    /// The longest delay.
    pub ceiling: Duration,
}

impl Ladder {
    /// A delay that doubles from `first` up to `ceiling`; never below `first`.
    pub fn new(first: Duration, ceiling: Duration) -> Self {
        Self { first, ceiling: ceiling.max(first) }
    }

    /// A delay that stays the same.
    pub fn flat(delay: Duration) -> Self {
        Self { first: delay, ceiling: delay }
    }

    /// The delay of a step, counted from 0.
    pub fn delay(self, step: u32) -> Duration {
        2_u32
            .checked_pow(step)
            .map_or(self.ceiling, |factor| self.first.saturating_mul(factor).min(self.ceiling))
    }
}

/// Chance that depends on nothing but its seed and what it is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance(u64);

impl Chance {
    /// Chance from a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The chance that belongs to `about`, independent of every other.
    pub const fn about(self, about: u64) -> Self {
        Self(mix(self.0 ^ mix(about)))
    }

    /// A number from 0 up to, not including, 1.
    pub fn fraction(self) -> f64 {
        // The upper 53 bits are what a float can hold without rounding.
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let numerator = (mix(self.0) >> 11) as f64;
        numerator / (1_u64 << 53) as f64
    }

    /// A rest's end made up to min(30 s, 2 %) later, so that many keys do not return at once; rests below a
    /// minute stay as they are.
    pub fn later(self, rest: Duration) -> Duration {
        if rest < JITTERED_FROM {
            return rest;
        }
        rest.saturating_add(rest.mul_f64(REST_SHARE).min(REST_SPREAD).mul_f64(self.fraction()))
    }

    /// One of our own waits, 10 % shorter to 10 % longer.
    pub fn around(self, wait: Duration) -> Duration {
        wait.mul_f64(1.0 - WAIT_SHARE + 2.0 * WAIT_SHARE * self.fraction())
    }

    /// A wait that was stated to us: up to 10 % longer, never shorter.
    pub fn beyond(self, wait: Duration) -> Duration {
        wait.mul_f64(1.0 + WAIT_SHARE * self.fraction())
    }
}

/// The moment `wait` after `now`; the end of time if that is beyond it.
pub fn after(now: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// How long from `now` until `then`; zero if it is past.
pub fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or(Duration::ZERO)
}

/// The finaliser of splitmix64: every bit of the input reaches every bit of the output.
const fn mix(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

const JITTERED_FROM: Duration = Duration::from_secs(60);
const REST_SHARE: f64 = 0.02;
const REST_SPREAD: Duration = Duration::from_secs(30);
const WAIT_SHARE: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ladder_doubles_up_to_its_ceiling() {
        let ladder = Ladder::new(Duration::from_secs(1800), Duration::from_secs(6 * 3600));
        let hours: Vec<f64> = (0..6).map(|step| ladder.delay(step).as_secs_f64() / 3600.0).collect();
        assert_eq!(hours, [0.5, 1.0, 2.0, 4.0, 6.0, 6.0]);
        assert_eq!(ladder.delay(u32::MAX), ladder.ceiling);
    }

    #[test]
    fn a_rest_is_never_made_shorter_and_little_longer() {
        for about in 0..1000 {
            let chance = Chance::new(7).about(about);
            let rest = Duration::from_secs(600);
            let jittered = chance.later(rest);
            assert!(jittered >= rest && jittered <= Duration::from_secs(612));
            assert!(chance.later(Duration::from_secs(86_400)) <= Duration::from_secs(86_430));
            assert_eq!(chance.later(Duration::from_secs(59)), Duration::from_secs(59));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_chance() {
        assert_eq!(
            Chance::new(1).about(2).fraction().to_bits(),
            Chance::new(1).about(2).fraction().to_bits()
        );
        assert_ne!(Chance::new(1).about(2), Chance::new(1).about(3));
    }
}
