//! Which bytes of an allocation have been written.

use std::ops::Range;

/// Bits of a word, and so bytes that one knows of.
const BITS: usize = u64::BITS as usize;

/// One bit per byte, and one for each word of those that is all ones: of what has been written as a whole, which is nearly all
/// that is read, those are looked at alone, and they are few enough to stay in the processor's cache.
#[derive(Debug)]
pub(super) struct Written {
    bytes: Vec<u64>,
    words: Vec<u64>,
}

impl Written {
    /// Of `bytes` bytes, all of which or none are written.
    pub(super) fn new(bytes: usize, written: bool) -> Self {
        let value = if written { u64::MAX } else { 0 };
        let words = bytes.div_ceil(BITS);
        Self { bytes: vec![value; words], words: vec![value; words.div_ceil(BITS)] }
    }

    /// Marks a range as written.
    pub(super) fn mark(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        // Words that the range covers, and those at its ends.
        let (first, last) = (range.start / BITS, (range.end - 1) / BITS);
        let covered = range.start.div_ceil(BITS)..range.end / BITS;
        for word in [first, last] {
            self.bytes[word] |= bits_of(word, &range);
            self.words[word / BITS] |= u64::from(self.bytes[word] == u64::MAX) << (word % BITS);
        }
        if covered.start < covered.end {
            self.bytes[covered.clone()].fill(u64::MAX);
            for word in covered.start / BITS..=(covered.end - 1) / BITS {
                self.words[word] |= bits_of(word, &covered);
            }
        }
    }

    /// Whether all bytes of a range are written.
    #[inline(always)]
    pub(super) fn are(&self, range: Range<usize>) -> bool {
        let (first, last) = (range.start / BITS, range.end.saturating_sub(1) / BITS);
        if first / BITS == last / BITS && !range.is_empty() {
            let mask = u64::MAX >> (BITS - 1 - (last - first)) << (first % BITS);
            if self.words[first / BITS] & mask == mask {
                return true;
            }
        }
        self.are_each(range)
    }

    #[inline(never)]
    fn are_each(&self, range: Range<usize>) -> bool {
        (range.start / BITS..range.end.div_ceil(BITS)).all(|word| {
            let mask = bits_of(word, &range);
            self.bytes[word] & mask == mask
        })
    }

    /// Of each byte of a range, whether it is written; nothing if all are.
    pub(super) fn part(&self, range: Range<usize>) -> Part {
        let each = (!self.are(range.clone())).then(|| range.clone().map(|at| self.are(at..at + 1)).collect());
        Part { bytes: range.len(), each }
    }

    /// Makes as many bytes from `start` on what those of another range are.
    pub(super) fn put(&mut self, start: usize, part: &Part) {
        match &part.each {
            None => self.mark(start..start + part.bytes),
            Some(each) => {
                for (at, &written) in (start..).zip(each) {
                    if written {
                        self.mark(at..at + 1);
                    } else {
                        self.bytes[at / BITS] &= !(1 << (at % BITS));
                        self.words[at / BITS / BITS] &= !(1 << (at / BITS % BITS));
                    }
                }
            }
        }
    }
}

/// What is known of a range.
pub(super) struct Part {
    bytes: usize,
    /// Unless all are written.
    each: Option<Vec<bool>>,
}

/// The bits of `word` that belong to the range.
fn bits_of(word: usize, range: &Range<usize>) -> u64 {
    let within = |at: usize| at.saturating_sub(word * BITS).min(BITS);
    let below = |bit: usize| if bit == BITS { u64::MAX } else { (1 << bit) - 1 };
    below(within(range.end)) & !below(within(range.start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Against a list of bytes: ranges of all lengths, marked, taken over with gaps, and asked for.
    #[test]
    fn bytes_are_written_that_were_marked_or_taken_over() {
        const BYTES: usize = 3 * BITS * BITS + 17;
        println!("seed 11");
        let mut random = Random::new(11);
        for from_start in [false, true] {
            let mut written = Written::new(BYTES, from_start);
            let mut expected = vec![from_start; BYTES];
            let mut range = |short: bool| {
                let start = random.below(BYTES as u64) as usize;
                let most = if short { 200 } else { BYTES };
                start..BYTES.min(start + random.below(most as u64) as usize)
            };
            for round in 0..400 {
                let (to, from, asked) = (range(round % 4 != 0), range(round % 3 != 0), range(round % 2 != 0));
                if round % 2 == 0 {
                    written.mark(to.clone());
                    expected[to].fill(true);
                } else {
                    let bytes = from.len().min(BYTES - to.start);
                    let part = written.part(from.start..from.start + bytes);
                    written.put(to.start, &part);
                    expected.copy_within(from.start..from.start + bytes, to.start);
                }
                for asked in [asked, 0..BYTES, to_words(round * 37 % BYTES)] {
                    let asked = asked.start..asked.end.min(BYTES);
                    let all = expected[asked.clone()].iter().all(|&written| written);
                    assert_eq!(written.are(asked.clone()), all, "{round}: {asked:?}");
                }
                let wrong = (0..BYTES).find(|&at| written.are(at..at + 1) != expected[at]);
                assert_eq!(wrong, None, "{round}");
            }
        }
    }

    /// Two words from `at` on, whose bits are in one word or in two.
    fn to_words(at: usize) -> Range<usize> {
        at / BITS * BITS..at / BITS * BITS + 2 * BITS
    }
}
