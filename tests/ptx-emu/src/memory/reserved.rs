//! Allocations too large to be there as a whole: addresses are reserved, and memory stands only behind the parts that have
//! been written. Of those that have not, it is known what they all hold.

use super::{Allocation, FRESH, Memory, Written};

/// Allocations from this size on are only reserved.
const SMALLEST: usize = 256 << 20;
/// What is there at a time: a part that begins at a multiple of it.
const PART: u64 = 16 << 10;

/// A range of addresses.
#[derive(Debug)]
pub(super) struct Reserved {
    base: u64,
    length: u64,
    /// What every byte holds that is in no part; nothing if nobody has written it.
    filled: Option<u8>,
}

impl Reserved {
    fn contains(&self, address: u64, bytes: u64) -> bool {
        let offset = address.wrapping_sub(self.base);
        offset <= self.length && bytes <= self.length - offset
    }
}

/// All ranges, by address, ascending.
#[derive(Debug, Default)]
pub(super) struct Reservations(Vec<Reserved>);

impl Reservations {
    /// Reserves a range that is large enough.
    pub(super) fn add(&mut self, base: u64, bytes: usize) -> bool {
        let is_large = bytes >= SMALLEST;
        if is_large {
            self.0.push(Reserved { base, length: bytes as u64, filled: None });
        }
        is_large
    }

    /// Start and length of the range that `address` lies in.
    pub(super) fn range_of(&self, address: u64) -> Option<(u64, u64)> {
        self.find(address, 1).map(|range| (range.base, range.length))
    }

    /// Starts and lengths of all ranges.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|range| (range.base, range.length))
    }

    /// What bytes hold that are in no part, if they are in a range: the number, and whether it has been written.
    pub(super) fn holds(&self, address: u64, bytes: u64) -> Option<(u8, bool)> {
        self.find(address, bytes).map(|range| (range.filled.unwrap_or(FRESH), range.filled.is_some()))
    }

    fn find(&self, address: u64, bytes: u64) -> Option<&Reserved> {
        let index = self.0.partition_point(|range| range.base <= address).checked_sub(1)?;
        Some(&self.0[index]).filter(|range| range.contains(address, bytes))
    }

    /// A part that has bytes of a range, as it is before anything is written to it.
    fn part(&self, address: u64) -> Option<Allocation> {
        let range = self.find(address, 1)?;
        let offset = (address - range.base) / PART * PART;
        let length = PART.min(range.length - offset) as usize;
        Some(Allocation {
            base: range.base + offset,
            bytes: vec![range.filled.unwrap_or(FRESH); length],
            written: Written::new(length, range.filled.is_some()),
            traces: Vec::new(),
        })
    }
}

impl Memory {
    /// Frees the range that starts at `address`, and gives its length.
    pub(super) fn free_reserved(&mut self, address: u64) -> Option<u64> {
        let index = self.reservations.0.binary_search_by_key(&address, |range| range.base).ok()?;
        let Reserved { base, length, .. } = self.reservations.0.remove(index);
        self.allocations.retain(|part| part.base.wrapping_sub(base) >= length);
        Some(length)
    }

    /// Fills a range with copies of a byte, if that is the whole range.
    pub(super) fn fill_reserved(&mut self, address: u64, pattern: &[u8], count: usize) -> bool {
        let Some(range) = self.reservations.0.iter_mut().find(|range| range.base == address) else { return false };
        let (base, length) = (range.base, range.length);
        if pattern.len() as u64 * count as u64 != length || pattern.iter().any(|byte| *byte != pattern[0]) {
            return false;
        }
        range.filled = Some(pattern[0]);
        self.allocations.retain(|part| part.base.wrapping_sub(base) >= length);
        true
    }

    /// Makes the part that holds an access, if it is in a range. An access that is aligned is in one part.
    pub(super) fn make_part(&mut self, address: u64) {
        let index = self.allocations.partition_point(|allocation| allocation.base <= address);
        let is_there = index.checked_sub(1).is_some_and(|before| self.allocations[before].contains(address, 1));
        if !is_there && let Some(part) = self.reservations.part(address) {
            self.allocations.insert(index, part);
        }
    }

    /// How many of `bytes` bytes from `address` on are in one part of a range.
    pub(super) fn bytes_of_part(&self, address: u64, bytes: usize) -> Option<usize> {
        let (base, length) = self.reservations.range_of(address)?;
        if bytes as u64 > length - (address - base) {
            return None;
        }
        Some(bytes.min((PART - (address - base) % PART) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::AccessError;

    const LARGE: usize = 9 << 30;

    #[test]
    fn a_large_allocation_has_memory_only_where_it_was_written() {
        let mut memory = Memory::with_capacity(64 << 30);
        let large = memory.alloc(LARGE).unwrap();
        let next = memory.alloc(16).unwrap();
        assert_eq!((memory.used(), memory.allocation_of(large + 5)), (LARGE as u64 + 16, Some((large, LARGE))));

        // Across two parts, far in.
        let place = large + (5 << 30) + PART - 3;
        memory.write(place, b"tokens").unwrap();
        let mut found = [0; 8];
        memory.read(place - 1, &mut found).unwrap();
        assert_eq!(&found, &[FRESH, b't', b'o', b'k', b'e', b'n', b's', FRESH]);
        assert_eq!(memory.load::<1>(place + 5, true), Ok([b's']));
        assert_eq!(memory.load::<1>(place + 6, true), Err(AccessError::Uninitialised));
        assert_eq!(memory.load::<4>(large + 4, true), Err(AccessError::Uninitialised));
        assert_eq!(memory.load::<4>(large + 4, false), Ok([FRESH; 4]));
        memory.store(large + LARGE as u64 - 4, [1, 2, 3, 4]).unwrap();
        assert_eq!(memory.load::<4>(large + LARGE as u64 - 4, true), Ok([1, 2, 3, 4]));
        assert!(memory.allocations.len() < 5, "parts that nobody has written are not there");

        // As at any other allocation's ends.
        assert_eq!(memory.load::<4>(large + LARGE as u64 - 2, false), Err(AccessError::OutOfBounds));
        assert!(memory.write(large + LARGE as u64 - 2, b"long").is_err());
        assert!(memory.nearest(large + LARGE as u64 + 1).contains("byte 9663676417 of the 9663676416 byte allocation"));
        assert!(memory.nearest(next - 1).starts_with("1 bytes before the start of the 16 byte allocation"));

        memory.free(large).unwrap();
        assert!(memory.read(place, &mut found).is_err() && memory.free(large).is_err());
        assert_eq!((memory.used(), memory.allocations.len()), (16, 1));
    }

    #[test]
    fn a_large_allocation_is_filled_at_once() {
        let mut memory = Memory::with_capacity(64 << 30);
        let large = memory.alloc(LARGE).unwrap();
        memory.write(large + 100, b"old").unwrap();
        memory.fill(large, &[0], LARGE).unwrap();
        assert_eq!(memory.load::<4>(large + 100, true), Ok([0; 4]));
        memory.store(large + 104, [7]).unwrap();
        assert_eq!(memory.load::<8>(large + 100, true), Ok([0, 0, 0, 0, 7, 0, 0, 0]));
        memory.copy(large + (4 << 30), large + 104, 2).unwrap();
        assert_eq!(memory.load::<2>(large + (4 << 30), true), Ok([7, 0]));
    }
}
