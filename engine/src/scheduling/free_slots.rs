//! Should a prefill wait until more requests can start with it?
//!
//! When requests end one by one, each frees one slot, and a prefill for each interrupts all others. Nothing calls this
//! yet. It will stand behind `schedule.{min_free_slots_delay, max_running_requests}`.

/// Below this many requests nothing is held unless the user says so.
const FEW_REQUESTS: usize = 8;

/// Free slots to wait for when drafts are made in blocks: a sixth of `max_running_requests`, rounded up, but 2 to 4;
/// none (0) below 8 requests.
///
/// ```
/// use engine::scheduling::free_slots::suited_for_block_drafts;
///
/// assert_eq!([4, 8, 16, 48].map(suited_for_block_drafts), [0, 2, 3, 4]);
/// ```
#[must_use]
pub fn suited_for_block_drafts(max_running_requests: usize) -> usize {
    if max_running_requests < FEW_REQUESTS { 0 } else { max_running_requests.div_ceil(6).min(4) }
}

/// Whether a prefill waits: some requests run, and fewer slots are free than are waited for. A machine that has nothing
/// to do waits for nothing, and as many slots as there are is enough.
///
/// ```
/// use engine::scheduling::free_slots::waits;
///
/// assert!(waits(14, 16, 4));
/// assert!(!waits(12, 16, 4));
/// assert!(!waits(0, 2, 4), "no more can become free");
/// ```
#[must_use]
pub fn waits(running: usize, max_running_requests: usize, wanted: usize) -> bool {
    running > 0 && max_running_requests.saturating_sub(running) < wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suited_numbers_by_hand() {
        for (requests, wanted) in
            [(0, 0), (7, 0), (8, 2), (12, 2), (13, 3), (18, 3), (19, 4), (24, 4), (25, 4), (1000, 4)]
        {
            assert_eq!(suited_for_block_drafts(requests), wanted, "{requests}");
        }
    }

    #[test]
    fn waiting_ends_when_the_slots_are_free_and_before_nothing_runs() {
        for most in 1..20 {
            for wanted in 0..25 {
                for running in 0..=most {
                    let waits_here = waits(running, most, wanted);
                    assert_eq!(waits_here, running > 0 && most - running < wanted, "{running} {most} {wanted}");
                    // Each request that ends brings it closer, so nothing waits for ever.
                    assert!(waits_here || running == 0 || !waits(running - 1, most, wanted));
                }
                assert!(!waits(0, most, wanted));
            }
        }
    }
}
