//! Shared-memory bank conflicts.

use crate::regs::{Row, lanes};

const BANKS: usize = 32;

/// How many more passes than necessary a warp's shared access takes.
///
/// Memory has 32 banks of 4 bytes. One pass serves 128 bytes: all lanes for accesses up to 4 bytes, half a warp for 8,
/// a quarter for 16. Within a pass, distinct words in one bank are served one after another; equal words at once.
#[inline(always)]
pub(crate) fn excess_passes(addresses: &Row<u64>, mask: u32, bytes: u32) -> u64 {
    let words = (bytes / 4).max(1);
    let per_pass = 32 / words;
    if each_in_its_own_place(addresses, mask, 4 * words, per_pass) {
        return 0;
    }
    counted(addresses, mask, words as usize)
}

/// Whether the lanes of every pass access different banks, each lane all of its own, or all lanes the same word.
///
/// Lanes are taken to be aligned; those that are not end the launch.
#[inline(always)]
fn each_in_its_own_place(addresses: &Row<u64>, mask: u32, unit: u32, per_pass: u32) -> bool {
    let first = addresses[mask.trailing_zeros() as usize & 31];
    let shift = unit.trailing_zeros();
    let mut places = [0_u32; 32];
    let mut different = 0;
    for (lane, (place, &address)) in places.iter_mut().zip(addresses).enumerate() {
        let on = 0_u32.wrapping_sub(mask >> lane & 1);
        *place = (1 << ((address >> shift) as u32 & (per_pass - 1))) & on;
        different |= (address ^ first) as u32 & on;
    }
    let passes = places.chunks_exact(per_pass as usize).enumerate();
    let mut apart = true;
    for (pass, places) in passes {
        let taken = places.iter().fold(0, |taken, place| taken | place);
        let lanes = mask >> (pass as u32 * per_pass) & (u32::MAX >> (32 - per_pass));
        apart &= taken.count_ones() == lanes.count_ones();
    }
    apart || different == 0
}

#[inline(never)]
fn counted(addresses: &Row<u64>, mask: u32, words: usize) -> u64 {
    let lanes_per_pass = 32 / words;
    let mut excess = 0;
    for first in (0..32).step_by(lanes_per_pass) {
        let group = mask & ((u64::from(u32::MAX) >> (32 - lanes_per_pass)) << first) as u32;
        excess += passes(addresses, group, words).saturating_sub(1);
    }
    excess
}

fn passes(addresses: &Row<u64>, group: u32, words: usize) -> u64 {
    let mut seen = [u64::MAX; BANKS];
    let mut conflict = false;
    let mut last = None;
    for lane in lanes(group) {
        // Neighbours often share a word.
        if last.replace(addresses[lane]) == Some(addresses[lane]) {
            continue;
        }
        for word in (addresses[lane] / 4)..(addresses[lane] / 4 + words as u64) {
            let bank = &mut seen[word as usize % BANKS];
            conflict |= *bank != u64::MAX && *bank != word;
            *bank = word;
        }
    }
    if conflict { slow_passes(addresses, group, words) } else { u64::from(group != 0) }
}

/// Counts the distinct words per bank. A pass serves at most 32 words.
#[cold]
fn slow_passes(addresses: &Row<u64>, group: u32, words: usize) -> u64 {
    let mut distinct = [u64::MAX; BANKS];
    let mut found = 0;
    let mut per_bank = [0; BANKS];
    for lane in lanes(group) {
        for word in (addresses[lane] / 4)..(addresses[lane] / 4 + words as u64) {
            if !distinct[..found].contains(&word) {
                distinct[found] = word;
                found += 1;
                per_bank[word as usize % BANKS] += 1;
            }
        }
    }
    per_bank.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strided(stride: u64) -> Row<u64> {
        std::array::from_fn(|lane| lane as u64 * stride)
    }

    #[test]
    fn strides_of_words_conflict_as_their_common_divisor_with_32() {
        assert_eq!(excess_passes(&strided(4), u32::MAX, 4), 0);
        assert_eq!(excess_passes(&strided(8), u32::MAX, 4), 1);
        assert_eq!(excess_passes(&strided(128), u32::MAX, 4), 31);
        assert_eq!(excess_passes(&strided(132), u32::MAX, 4), 0);
        assert_eq!(excess_passes(&[64; 32], u32::MAX, 4), 0, "one word for all is a broadcast");
    }

    #[test]
    fn wide_accesses_are_served_in_parts_of_a_warp() {
        assert_eq!(excess_passes(&strided(8), u32::MAX, 8), 0);
        assert_eq!(excess_passes(&strided(16), u32::MAX, 16), 0);
        // 8 rows of 64 bytes: two rows share each group of banks, so four passes instead of one per quarter.
        assert_eq!(excess_passes(&strided(64), u32::MAX, 16), 4 * 3);
        assert_eq!(excess_passes(&strided(80), u32::MAX, 16), 0);
        assert_eq!(excess_passes(&strided(64), 1, 16), 0);
        // Each half of a warp reads one word of its own; the two halves of a half read two, of different banks or of one.
        let parts = |lanes: usize, bytes: u64| std::array::from_fn(|lane| (lane / lanes) as u64 * bytes);
        assert_eq!(excess_passes(&parts(16, 128), u32::MAX, 8), 0);
        assert_eq!(excess_passes(&parts(8, 8), u32::MAX, 8), 0);
        assert_eq!(excess_passes(&parts(8, 128), u32::MAX, 8), 2);
    }
}
