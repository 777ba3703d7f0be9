//! Do all groups prefill in this step, or does none?
//!
//! With data-parallel attention every group runs its own requests, and all run a step together. If one prefills, the
//! others wait for it with their decode; so they had better prefill at the same time. In each step every group says how
//! it stands, all receive what all said, and each comes to the same decision from it: [`negotiate`] looks at nothing
//! else.
//!
//! Nothing calls this yet. It will stand behind `schedule.{enable_prefill_delayer, prefill_delayer_max_delay_passes,
//! prefill_delayer_queue_min_ratio, prefill_delayer_max_delay_ms, prefill_delayer_token_usage_low_watermark,
//! max_running_requests, prefill_max_requests}` and `parallel.attn_dp_size`.

use std::collections::VecDeque;

/// Steps for which a prefill may be put off, unless the user says otherwise.
pub const MAX_DELAY_PASSES: usize = 30;
/// Milliseconds for which a short queue may put off a prefill, unless the user says otherwise.
pub const MAX_DELAY_MILLISECONDS: u64 = 5000;
/// Prefills over which the size of the largest one is remembered.
pub const REMEMBERED_PREFILLS: usize = 16;

/// How one group stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupState {
    /// It has something to prefill.
    pub prefillable: bool,
    /// It is to prefill now, since few of its tokens are in use; see [`is_below_watermark`].
    pub forced: bool,
    /// Requests that it runs.
    pub running: usize,
    /// Requests of its largest prefill of late; see [`LargestPrefill`].
    pub largest_prefill: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// A queue that is too short has put prefills off for as long as it may.
    pub queue_timed_out: bool,
}

/// What holds for all groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DelayerLimits {
    /// Steps in a row for which a prefill may be put off, and one more.
    pub max_delay_passes: usize,
    /// Requests that a group may run.
    pub max_running_requests: usize,
    /// Waiting requests for each running one that a prefill is worth; `None`: the queue does not matter.
    pub queue_min_ratio: Option<f64>,
    /// Requests that a prefill may have, if the user limits it.
    pub prefill_max_requests: Option<usize>,
}

/// What is remembered from step to step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delays {
    /// Steps in a row for which a prefill has been put off.
    pub passes: usize,
    /// A lack of slots or a short queue has been let pass once: the first time the largest prefill is that of an idle
    /// machine, and says nothing.
    pub passed_once: bool,
}

/// Why it was decided so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Nobody has anything to prefill.
    Nothing,
    /// All prefill, and did not wait for it.
    NoWait,
    /// All prefill, after they waited.
    WaitSuccess,
    /// It is put off.
    Delay,
    /// It was put off for as long as it may be.
    WaitTimeout,
    /// A group has so few tokens in use that waiting gains nothing.
    TokenWatermark,
}

/// A decision, the same for all groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Whether those that can prefill may.
    pub allows_prefill: bool,
    /// Why.
    pub reason: Reason,
    /// What to remember for the next step.
    pub delays: Delays,
}

/// Decides for all groups.
///
/// If no group has anything to prefill, nothing happens. If a group that could prefill is below its watermark, it goes
/// on. If some can and some cannot, it is put off. If all can, it is put off when fewer slots are free than the largest
/// prefill of late takes, or when fewer requests wait than a prefill is worth; except for the first time. Whatever puts
/// it off does so for one step less than `max_delay_passes` in a row at most.
///
/// ```
/// use engine::scheduling::prefill_delayer::{DelayerLimits, Delays, GroupState, Reason, negotiate};
///
/// let limits = DelayerLimits {
///     max_delay_passes: 3,
///     max_running_requests: 8,
///     queue_min_ratio: None,
///     prefill_max_requests: None,
/// };
/// let busy = GroupState::default();
/// let ready = GroupState { prefillable: true, ..busy };
/// let mut delays = Delays::default();
/// let mut reasons = Vec::new();
/// for groups in [[ready, busy], [ready, busy], [ready, busy], [ready, busy], [ready, ready]] {
///     let decision = negotiate(&groups, delays, limits);
///     reasons.push(decision.reason);
///     delays = decision.delays;
/// }
/// use Reason::{Delay, WaitSuccess, WaitTimeout};
/// assert_eq!(reasons, [Delay, Delay, WaitTimeout, Delay, WaitSuccess]);
/// ```
#[must_use]
pub fn negotiate(groups: &[GroupState], delays: Delays, limits: DelayerLimits) -> Decision {
    let done = Delays { passes: 0, ..delays };
    let allow = |reason, delays| Decision { allows_prefill: true, reason, delays };
    if !groups.iter().any(|group| group.prefillable) {
        return allow(Reason::Nothing, done);
    }
    if groups.iter().any(|group| group.prefillable && group.forced) {
        return allow(Reason::TokenWatermark, done);
    }
    let waited = |delays: Delays| if delays.passes > 0 { Reason::WaitSuccess } else { Reason::NoWait };
    let all_can = groups.iter().all(|group| group.prefillable);
    if all_can && !lacks_slots(groups, limits) && !has_short_queue(groups, limits) {
        return allow(waited(delays), done);
    }
    if all_can && !delays.passed_once {
        return allow(waited(delays), Delays { passed_once: true, ..done });
    }
    if delays.passes + 1 < limits.max_delay_passes {
        let delays = Delays { passes: delays.passes + 1, ..delays };
        Decision { allows_prefill: false, reason: Reason::Delay, delays }
    } else {
        allow(Reason::WaitTimeout, done)
    }
}

fn greatest(groups: &[GroupState], of: impl Fn(&GroupState) -> usize) -> usize {
    groups.iter().map(of).max().unwrap_or(0)
}

/// Fewer slots are free in the fullest group than the largest prefill takes.
fn lacks_slots(groups: &[GroupState], limits: DelayerLimits) -> bool {
    let free = limits.max_running_requests.saturating_sub(greatest(groups, |group| group.running));
    free < greatest(groups, |group| group.largest_prefill)
}

/// Fewer requests wait than a prefill is worth: `queue_min_ratio` · running, but no more than a prefill may have.
fn has_short_queue(groups: &[GroupState], limits: DelayerLimits) -> bool {
    let Some(ratio) = limits.queue_min_ratio else { return false };
    let of_running = (greatest(groups, |group| group.running) as f64 * ratio) as usize;
    let largest = limits.prefill_max_requests.unwrap_or_else(|| greatest(groups, |group| group.largest_prefill));
    let worth = of_running.min(largest);
    greatest(groups, |group| group.waiting) < worth && !groups.iter().any(|group| group.queue_timed_out)
}

/// Whether a group is to prefill now: it has something, and less of its tokens are in use than the watermark says.
#[must_use]
pub fn is_below_watermark(prefillable: bool, token_usage: f64, watermark: Option<f64>) -> bool {
    prefillable && watermark.is_some_and(|watermark| token_usage < watermark)
}

/// Requests of the largest prefill among the last 16.
#[derive(Debug, Clone, Default)]
pub struct LargestPrefill(VecDeque<usize>);

impl LargestPrefill {
    /// Remembers a prefill.
    pub fn record(&mut self, requests: usize) {
        if self.0.len() == REMEMBERED_PREFILLS {
            self.0.pop_front();
        }
        self.0.push_back(requests);
    }

    /// The largest; 0 if there was none.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.0.iter().copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Random;

    const LIMITS: DelayerLimits = DelayerLimits {
        max_delay_passes: 4,
        max_running_requests: 10,
        queue_min_ratio: None,
        prefill_max_requests: None,
    };
    const BUSY: GroupState = GroupState {
        prefillable: false,
        forced: false,
        running: 5,
        largest_prefill: 2,
        waiting: 0,
        queue_timed_out: false,
    };
    const READY: GroupState = GroupState { prefillable: true, waiting: 1, ..BUSY };

    /// Reasons step by step, from a state that has been through its first lack.
    fn reasons(steps: &[[GroupState; 2]], limits: DelayerLimits) -> Vec<Reason> {
        let mut delays = Delays { passes: 0, passed_once: true };
        let reasons = steps.iter().map(|groups| {
            let decision = negotiate(groups, delays, limits);
            delays = decision.delays;
            assert_eq!(decision.allows_prefill, decision.reason != Reason::Delay);
            decision.reason
        });
        reasons.collect()
    }

    #[test]
    fn decisions_by_hand() {
        use Reason::{Delay, NoWait, Nothing, TokenWatermark, WaitSuccess, WaitTimeout};
        let (all, none, mixed) = ([READY, READY], [BUSY, BUSY], [READY, BUSY]);
        let forced = [GroupState { forced: true, ..READY }, BUSY];
        let full = [READY, GroupState { running: 9, ..READY }];
        let table: [(&[[GroupState; 2]], &[Reason]); 8] = [
            (&[all, all], &[NoWait, NoWait]),
            (&[none, none], &[Nothing, Nothing]),
            (&[mixed, mixed, mixed, mixed, mixed], &[Delay, Delay, Delay, WaitTimeout, Delay]),
            (&[mixed, all, all], &[Delay, WaitSuccess, NoWait]),
            (&[mixed, none, mixed], &[Delay, Nothing, Delay]),
            (&[mixed, forced, mixed], &[Delay, TokenWatermark, Delay]),
            (&[full, full, all], &[Delay, Delay, WaitSuccess]),
            (&[mixed, full, mixed, full, mixed], &[Delay, Delay, Delay, WaitTimeout, Delay]),
        ];
        for (steps, expected) in table {
            assert_eq!(reasons(steps, LIMITS), expected, "{steps:?}");
        }
        // A group below its watermark that has nothing to prefill forces nothing.
        assert_eq!(reasons(&[[READY, GroupState { forced: true, ..BUSY }]], LIMITS), [Delay]);
    }

    #[test]
    fn slots_and_queues_at_their_ends() {
        use Reason::{Delay, NoWait};
        let group = |running, largest_prefill, waiting| GroupState { running, largest_prefill, waiting, ..READY };
        let with = |ratio, most| DelayerLimits { queue_min_ratio: ratio, prefill_max_requests: most, ..LIMITS };
        let table = [
            // Slots: 10 − running against the largest prefill.
            (group(8, 2, 9), with(None, None), NoWait),
            (group(9, 2, 9), with(None, None), Delay),
            // Queue: 6 · 0.5 = 3, no more than the largest prefill.
            (group(6, 4, 3), with(Some(0.5), None), NoWait),
            (group(6, 4, 2), with(Some(0.5), None), Delay),
            (group(6, 2, 2), with(Some(0.5), None), NoWait),
            (group(6, 2, 1), with(Some(0.5), None), Delay),
            // What the user allows takes the place of the largest prefill.
            (group(6, 4, 1), with(Some(0.5), Some(1)), NoWait),
            (group(6, 1, 2), with(Some(0.5), Some(8)), Delay),
            // Nothing runs: nothing is worth waiting for.
            (group(0, 4, 0), with(Some(0.5), None), NoWait),
            (group(1, 4, 0), with(Some(0.5), None), NoWait),
            (group(2, 4, 0), with(Some(0.5), None), Delay),
            (GroupState { queue_timed_out: true, ..group(6, 4, 2) }, with(Some(0.5), None), NoWait),
        ];
        for (state, limits, expected) in table {
            assert_eq!(reasons(&[[state, state]], limits), [expected], "{state:?} {limits:?}");
        }
    }

    #[test]
    fn the_first_lack_is_let_pass() {
        let full = [GroupState { running: 9, ..READY }; 2];
        let first = negotiate(&full, Delays::default(), LIMITS);
        assert_eq!((first.allows_prefill, first.reason), (true, Reason::NoWait));
        assert_eq!(negotiate(&full, first.delays, LIMITS).reason, Reason::Delay);
        // That some cannot prefill is put off from the first time.
        assert_eq!(negotiate(&[READY, BUSY], Delays::default(), LIMITS).reason, Reason::Delay);
    }

    #[test]
    fn the_largest_prefill_is_forgotten_after_sixteen() {
        let mut largest = LargestPrefill::default();
        assert_eq!(largest.requests(), 0);
        largest.record(9);
        for _ in 1..REMEMBERED_PREFILLS {
            largest.record(3);
            assert_eq!(largest.requests(), 9);
        }
        largest.record(2);
        assert_eq!(largest.requests(), 3);
    }

    #[test]
    fn the_watermark_forces_only_what_can_prefill() {
        for (prefillable, usage, watermark, forced) in [
            (true, 0.2, Some(0.3), true),
            (true, 0.3, Some(0.3), false),
            (false, 0.2, Some(0.3), false),
            (true, 0.0, None, false),
        ] {
            assert_eq!(is_below_watermark(prefillable, usage, watermark), forced);
        }
    }

    /// Groups gather one matrix, in whatever order their messages come; so they agree, and no prefill waits for ever.
    #[test]
    fn groups_agree_and_nobody_starves_in_random_steps() {
        let seed = 0x0064_656c_6179;
        eprintln!("random groups from seed {seed:#x}");
        let mut random = Random::new(seed);
        let mut below = |bound: usize| (random.bits() % bound as u64) as usize;
        for max_delay_passes in [0, 1, 2, 5, 30] {
            let limits = DelayerLimits { max_delay_passes, queue_min_ratio: Some(0.5), ..LIMITS };
            for count in 1..=4 {
                let mut memories = vec![Delays::default(); count];
                let mut put_off = 0;
                for _ in 0..2000 {
                    let mut groups: Vec<_> = (0..count)
                        .map(|_| GroupState {
                            prefillable: below(3) > 0,
                            forced: below(40) == 0,
                            running: below(11),
                            largest_prefill: below(6),
                            waiting: below(6),
                            queue_timed_out: below(20) == 0,
                        })
                        .collect();
                    let decisions: Vec<_> = memories
                        .iter()
                        .map(|delays| {
                            let last = groups.len() - 1;
                            groups.swap(below(last + 1), last);
                            negotiate(&groups, *delays, limits)
                        })
                        .collect();
                    assert!(decisions.iter().all(|decision| *decision == decisions[0]), "{decisions:?}");
                    put_off = if decisions[0].allows_prefill { 0 } else { put_off + 1 };
                    assert!(put_off < max_delay_passes.max(1), "put off {put_off} times");
                    memories = decisions.into_iter().map(|decision| decision.delays).collect();
                }
            }
        }
    }
}
