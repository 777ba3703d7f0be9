//! What the lanes of a warp access alike, checked and accessed together.

use super::{Allocation, Memory};
use crate::check::blocks::{LINE, Touch, Watch};
use crate::regs::{LANES, Row, lanes, mask_of};
use crate::vector;

/// What a warp's lanes access within one allocation.
pub(crate) struct Units<'a> {
    pub(crate) bytes: &'a [u8],
    /// The offset of each lane.
    pub(crate) at: Row<u64>,
}

/// The bytes that a warp's lanes access within one allocation, those of neighbours together where they are the same or
/// follow each other.
#[derive(Clone)]
struct Ranges<'a> {
    at: &'a Row<u64>,
    bytes: usize,
    /// Lanes with which a range begins.
    firsts: u32,
}

impl<'a> Ranges<'a> {
    /// Of `bytes` bytes at the offset of each lane.
    #[inline(always)]
    fn of(at: &'a Row<u64>, bytes: usize) -> Self {
        let mut steps = [u64::MAX; LANES];
        for lane in 1..LANES {
            steps[lane] = at[lane].wrapping_sub(at[lane - 1]);
        }
        let firsts = mask_of(|lane| steps[lane] != 0 && steps[lane] != bytes as u64);
        Self { at, bytes, firsts }
    }
}

impl Iterator for Ranges<'_> {
    type Item = std::ops::Range<usize>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.firsts == 0 {
            return None;
        }
        let first = self.firsts.trailing_zeros() as usize;
        self.firsts &= self.firsts - 1;
        let next = self.firsts.trailing_zeros() as usize;
        Some(self.at[first & 31] as usize..self.at[(next - 1) & 31] as usize + self.bytes)
    }
}

impl Allocation {
    /// Offsets of a warp's accesses of `N` bytes, if all are inside and at multiples of `N`; lanes that are off have that of
    /// the first that is on.
    #[inline(always)]
    fn units<const N: usize>(&self, addresses: &Row<u64>, mask: u32) -> Option<Row<u64>> {
        let first = addresses[mask.trailing_zeros() as usize & 31];
        let mut at = [0; LANES];
        let (mut highest, mut bits) = (0, 0);
        for lane in 0..LANES {
            let address = if mask >> lane & 1 != 0 { addresses[lane] } else { first };
            at[lane] = address.wrapping_sub(self.base);
            highest = highest.max(at[lane]);
            bits |= at[lane];
        }
        let last = (self.bytes.len() as u64).checked_sub(N as u64)?;
        (highest <= last && bits & (N as u64 - 1) == 0).then_some(at)
    }

    /// Whether ranges may be loaded: they have been written, if that is asked for, and it is no race.
    #[inline(always)]
    fn check(
        &mut self,
        watch: &mut Watch,
        ranges: Ranges<'_>,
        check_written: bool,
        touch: Option<Touch>,
    ) -> Option<()> {
        if check_written && !ranges.clone().all(|range| self.written.are(range)) {
            return None;
        }
        match touch {
            None => Some(()),
            Some(touch) => watch.access(self.traces(), ranges, touch).ok(),
        }
    }

    /// Has the processor fetch bytes that will be read.
    #[inline(always)]
    fn fetch(&self, bytes: std::ops::Range<usize>) {
        for line in bytes.start / 64..=(bytes.end - 1) / 64 {
            vector::prefetch(&self.bytes[64 * line]);
        }
    }

    /// Has it fetch who has touched them.
    #[inline(always)]
    fn fetch_traces(&self, bytes: std::ops::Range<usize>) {
        if let Some(trace) = self.traces.get(bytes.start / LINE) {
            vector::prefetch(trace);
        }
    }
}

impl Memory {
    /// The allocation that a warp loads from, if all its lanes do so from one, at multiples of `N`, from what has been
    /// written, and without a race; else the caller goes lane by lane.
    #[inline(always)]
    pub(crate) fn load_units<const N: usize>(
        &mut self,
        addresses: &Row<u64>,
        mask: u32,
        check_written: bool,
        touch: Option<Touch>,
    ) -> Option<Units<'_>> {
        let index = self.find(addresses[mask.trailing_zeros() as usize & 31], N as u64)?;
        let allocation = &mut self.allocations[index];
        let at = allocation.units::<N>(addresses, mask)?;
        if check_written || touch.is_some() {
            let ranges = Ranges::of(&at, N);
            // Both are fetched at once, while the checks go on.
            ranges.clone().for_each(|range| allocation.fetch_traces(range));
            ranges.clone().for_each(|range| allocation.fetch(range));
            allocation.check(&mut self.watch, ranges, check_written, touch)?;
        }
        Some(Units { bytes: &allocation.bytes, at })
    }

    /// Checks what a warp will load, as `load_units` does, and has the processor fetch it.
    #[inline(always)]
    pub(crate) fn prefetch_units<const N: usize>(
        &mut self,
        addresses: &Row<u64>,
        mask: u32,
        check_written: bool,
        touch: Option<Touch>,
    ) -> Option<()> {
        let index = self.find(addresses[mask.trailing_zeros() as usize & 31], N as u64)?;
        let allocation = &mut self.allocations[index];
        let at = allocation.units::<N>(addresses, mask)?;
        let ranges = Ranges::of(&at, N);
        // What is checked now before what is read later.
        ranges.clone().for_each(|range| allocation.fetch_traces(range));
        allocation.check(&mut self.watch, ranges.clone(), check_written, touch)?;
        ranges.for_each(|range| allocation.fetch(range));
        Some(())
    }

    /// Stores the data of the lanes in `mask`, in order, if all of them go to one allocation, at multiples of `N` and
    /// without a race; else does nothing and returns false.
    #[inline(always)]
    pub(crate) fn store_units<const N: usize>(
        &mut self,
        addresses: &Row<u64>,
        mask: u32,
        touch: Option<Touch>,
        data: &Row<[u8; N]>,
    ) -> bool {
        let Some(index) = self.find(addresses[mask.trailing_zeros() as usize & 31], N as u64) else { return false };
        let allocation = &mut self.allocations[index];
        let Some(at) = allocation.units::<N>(addresses, mask) else { return false };
        let ranges = Ranges::of(&at, N);
        if let Some(touch) = touch
            && self.watch.access(allocation.traces(), ranges.clone(), touch).is_err()
        {
            return false;
        }
        for lane in lanes(mask) {
            let start = at[lane] as usize;
            allocation.bytes[start..start + N].copy_from_slice(&data[lane]);
        }
        for range in ranges {
            allocation.written.mark(range);
        }
        true
    }
}
