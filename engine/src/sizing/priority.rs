//! Who goes first, and who makes room?
//!
//! Nothing calls this yet: the command runs one request. It will stand behind
//! `schedule.{schedule_policy, schedule_low_priority_values_first, priority_scheduling_preemption_threshold}`.

use std::cmp::Reverse;

/// Above this many waiting requests an order that looks at each one's prefix costs more than it gains.
pub const LONG_QUEUE: usize = 128;
/// A waiting request goes before a running one only if it is more urgent by more than this.
pub const PREEMPTION_THRESHOLD: i64 = 10;
/// Fewer tokens than this in common are no shared prefix, and a request with more of them cached does not wait for
/// another.
pub const SHARED_PREFIX_TOKENS: usize = 32;

/// The order of waiting requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// First come, first served.
    Fcfs,
    /// The longest cached prefix first.
    LongestPrefix,
    /// The order of the prefix tree, heavy branches first.
    TreeWeight,
    /// The longest output first.
    LongestOutput,
    /// The highest ratio of [`response_ratio`] first.
    ResponseRatio,
    /// Any.
    Random,
}

/// The order that is really used: first come, first served if a policy needs a prefix cache and there is none, or if it
/// looks at every prefix and more than 128 requests wait.
#[must_use]
pub fn effective_policy(policy: Policy, waiting: usize, has_prefix_cache: bool) -> Policy {
    let needs_cache = matches!(policy, Policy::LongestPrefix | Policy::TreeWeight);
    let looks_at_each = matches!(policy, Policy::LongestPrefix | Policy::ResponseRatio);
    if (needs_cache && !has_prefix_cache) || (looks_at_each && waiting > LONG_QUEUE) { Policy::Fcfs } else { policy }
}

/// Tokens that others had prefilled while this request waited, against those it needs prefilled: 1 + waited / uncached.
/// It grows while a request waits, and faster for a short one; so none waits forever.
#[must_use]
pub fn response_ratio(waited_tokens: u64, uncached_tokens: u64) -> f64 {
    1.0 + waited_tokens as f64 / uncached_tokens.max(1) as f64
}

/// Whether a request waits for another one of the queue to be prefilled, since they share a prefix that is not cached
/// yet: at most 32 tokens of its own are cached, and at least 32 are those of the other one.
#[must_use]
pub fn waits_for_shared_prefix(cached_tokens: usize, shared_with_other: usize) -> bool {
    cached_tokens <= SHARED_PREFIX_TOKENS && shared_with_other >= SHARED_PREFIX_TOKENS
}

/// How urgency is read from a priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgent {
    /// The higher the number, the more urgent.
    HighNumbers,
    /// The lower the number, the more urgent.
    LowNumbers,
}

impl Urgent {
    /// The priority as a number that is higher the more urgent it is.
    #[must_use]
    pub fn urgency(self, priority: i64) -> i128 {
        match self {
            Self::HighNumbers => i128::from(priority),
            Self::LowNumbers => -i128::from(priority),
        }
    }

    /// Whether a waiting request of one priority may take the place of a running one of another: it is more urgent by
    /// more than `threshold`.
    #[must_use]
    pub fn preempts(self, waiting: i64, running: i64, threshold: i64) -> bool {
        self.urgency(waiting) - self.urgency(running) > i128::from(threshold)
    }
}

/// A running request, as far as pre-emption looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// Its priority.
    pub priority: i64,
    /// When it started; later ones have a greater number.
    pub started: u64,
    /// Tokens that are free when it goes.
    pub tokens: usize,
}

/// Indices of the running requests that make room of `wanted` tokens for a waiting one: the least urgent first, of
/// these the last to have started, and no more than needed. None if all that may be pre-empted do not make enough room:
/// then nobody is.
#[must_use]
pub fn victims(running: &[Running], waiting: i64, wanted: usize, urgent: Urgent, threshold: i64) -> Vec<usize> {
    let may_go = |index: &usize| urgent.preempts(waiting, running[*index].priority, threshold);
    let mut order: Vec<_> = (0..running.len()).filter(may_go).collect();
    order.sort_by_key(|index| (urgent.urgency(running[*index].priority), Reverse(running[*index].started)));
    let mut room = 0;
    let mut chosen = Vec::new();
    for index in order {
        if room >= wanted {
            break;
        }
        room += running[index].tokens;
        chosen.push(index);
    }
    if room >= wanted { chosen } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICIES: [Policy; 6] = [
        Policy::Fcfs,
        Policy::LongestPrefix,
        Policy::TreeWeight,
        Policy::LongestOutput,
        Policy::ResponseRatio,
        Policy::Random,
    ];

    #[test]
    fn policies_in_all_cases() {
        // Whether each policy stays: short queue, long queue; the same without a prefix cache.
        let table = [
            [true, true, true, true],
            [true, false, false, false],
            [true, true, false, false],
            [true, true, true, true],
            [true, false, true, false],
            [true, true, true, true],
        ];
        for (policy, stays) in POLICIES.into_iter().zip(table) {
            let cases = [(128, true), (129, true), (128, false), (129, false)];
            for ((waiting, cache), stays) in cases.into_iter().zip(stays) {
                let expected = if stays { policy } else { Policy::Fcfs };
                assert_eq!(effective_policy(policy, waiting, cache), expected, "{policy:?} {waiting} {cache}");
            }
        }
    }

    #[test]
    fn ratios_by_hand() {
        for (waited, uncached, ratio) in [(0, 100, "1"), (300, 100, "4"), (300, 600, "1.5"), (5, 0, "6")] {
            assert_eq!(response_ratio(waited, uncached).to_string(), ratio);
        }
        for waited in 0..100 {
            for uncached in 1..100 {
                assert!(response_ratio(waited, uncached) < response_ratio(waited + 1, uncached));
                assert!(response_ratio(waited, uncached) >= response_ratio(waited, uncached + 1));
            }
        }
    }

    #[test]
    fn shared_prefixes_at_their_ends() {
        for (cached, shared, waits) in [(0, 32, true), (32, 32, true), (33, 32, false), (0, 31, false), (33, 99, false)]
        {
            assert_eq!(waits_for_shared_prefix(cached, shared), waits, "{cached} {shared}");
        }
    }

    #[test]
    fn pre_emption_needs_strictly_more_than_the_threshold() {
        use Urgent::{HighNumbers, LowNumbers};
        let table = [
            (HighNumbers, 10, 0, false),
            (HighNumbers, 11, 0, true),
            (HighNumbers, 0, 11, false),
            (LowNumbers, 0, 10, false),
            (LowNumbers, 0, 11, true),
            (LowNumbers, 11, 0, false),
            (HighNumbers, i64::MAX, i64::MIN, true),
            (LowNumbers, i64::MIN, i64::MAX, true),
        ];
        for (urgent, waiting, running, expected) in table {
            assert_eq!(
                urgent.preempts(waiting, running, PREEMPTION_THRESHOLD),
                expected,
                "{urgent:?} {waiting} {running}"
            );
        }
        for one in -30..30 {
            for other in -30..30 {
                for urgent in [HighNumbers, LowNumbers] {
                    let both = urgent.preempts(one, other, 10) && urgent.preempts(other, one, 10);
                    assert!(!both, "two requests would take each other's place forever");
                }
            }
        }
    }

    #[test]
    fn victims_by_hand() {
        let running = |priority, started, tokens| Running { priority, started, tokens };
        let all = [running(0, 1, 100), running(5, 2, 100), running(0, 3, 50), running(30, 4, 500)];
        let victims = |waiting, wanted| victims(&all, waiting, wanted, Urgent::HighNumbers, PREEMPTION_THRESHOLD);
        assert_eq!(victims(20, 50), [2], "the last to have started of the least urgent");
        assert_eq!(victims(20, 51), [2, 0]);
        assert_eq!(victims(20, 151), [2, 0, 1]);
        assert_eq!(victims(20, 251), [0; 0], "the urgent one stays, so there is not enough room");
        assert_eq!(victims(15, 150), [2, 0], "5 is not more than 10 below 15");
        assert_eq!(victims(15, 151), [0; 0]);
        assert_eq!(victims(10, 1), [0; 0]);
        assert_eq!(victims(20, 0), [0; 0]);
        let low = super::victims(&all, -20, 501, Urgent::LowNumbers, PREEMPTION_THRESHOLD);
        assert_eq!(low, [3, 1]);
    }
}
