//! Device memory: allocations in an address space of their own, so that a wild address is an error and never a crash.

mod reserved;
mod units;
mod written;

use std::cell::Cell;

use crate::check::blocks::{Clash, Order, Touch, Trace, Watch, traces};
use crate::error::MemoryError;
use reserved::Reservations;
pub(crate) use units::Units;
use written::Written;

/// Distance between allocations. No memory stands behind the gaps, and freed addresses are never handed out again, so
/// an access past an end or after a free meets nothing.
const RED_ZONE: u64 = 1 << 20;
const ALIGNMENT: u64 = 256;
const FIRST_ADDRESS: u64 = 0x7f00_0000_0000;
/// What fresh memory holds: neither zero nor a plausible number.
const FRESH: u8 = 0xcd;

/// The memory of one device.
///
/// Addresses are only meaningful to this value. Every byte knows whether it has been written.
#[derive(Debug)]
pub struct Memory {
    /// By address, ascending. Of those that are reserved, the parts that are there.
    allocations: Vec<Allocation>,
    reservations: Reservations,
    next: u64,
    used: u64,
    capacity: u64,
    /// Where the last two accesses that differ went: the next one mostly goes to one of both.
    last: Cell<[usize; 2]>,
    watch: Watch,
}

#[derive(Debug)]
struct Allocation {
    base: u64,
    bytes: Vec<u8>,
    written: Written,
    /// Which blocks have been where; empty as long as nobody has looked.
    traces: Vec<Trace>,
}

impl Allocation {
    fn traces(&mut self) -> &mut [Trace] {
        if self.traces.is_empty() {
            self.traces = traces(self.bytes.len());
        }
        &mut self.traces
    }

    #[inline(always)]
    fn contains(&self, address: u64, bytes: u64) -> bool {
        let offset = address.wrapping_sub(self.base);
        let size = self.bytes.len() as u64;
        offset <= size && bytes <= size - offset
    }
}

/// Why a device-side access failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessError {
    OutOfBounds,
    Uninitialised,
}

impl Default for Memory {
    /// 4 GiB.
    fn default() -> Self {
        Self::with_capacity(4 << 30)
    }
}

impl Memory {
    /// An empty memory that refuses to grow beyond `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: u64) -> Self {
        Self {
            allocations: Vec::new(),
            reservations: Reservations::default(),
            next: FIRST_ADDRESS,
            used: 0,
            capacity,
            last: Cell::new([0; 2]),
            watch: Watch::default(),
        }
    }

    /// Bytes allocated.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes that can be allocated in all.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Lets it grow to `capacity` bytes from now on. What is allocated stays, even if that is more.
    pub fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
    }

    /// Bytes that can still be allocated.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.capacity.saturating_sub(self.used)
    }

    /// Allocates `bytes` bytes at a multiple of 256; they count as uninitialised.
    pub fn alloc(&mut self, bytes: usize) -> Result<u64, MemoryError> {
        let size = bytes as u64;
        let free = self.available();
        if size > free {
            return Err(MemoryError::OutOfMemory { requested: size, free, capacity: self.capacity });
        }
        let base = self.next;
        self.next = (base + size + RED_ZONE).next_multiple_of(ALIGNMENT);
        self.used += size;
        if self.reservations.add(base, bytes) {
            return Ok(base);
        }
        self.allocations.push(Allocation {
            base,
            bytes: vec![FRESH; bytes],
            written: Written::new(bytes, false),
            traces: Vec::new(),
        });
        Ok(base)
    }

    /// Frees the allocation that starts at `address`.
    pub fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        if let Some(length) = self.free_reserved(address) {
            self.used -= length;
            return Ok(());
        }
        if self.reservations.range_of(address).is_some() {
            return Err(MemoryError::NotAnAllocation { address });
        }
        let index = self
            .allocations
            .binary_search_by_key(&address, |allocation| allocation.base)
            .map_err(|_| MemoryError::NotAnAllocation { address })?;
        let freed = self.allocations.remove(index);
        self.used -= freed.bytes.len() as u64;
        Ok(())
    }

    /// Start and length of the allocation that `address` lies in.
    #[must_use]
    pub fn allocation_of(&self, address: u64) -> Option<(u64, usize)> {
        if let Some((base, length)) = self.reservations.range_of(address) {
            return Some((base, length as usize));
        }
        let found = &self.allocations[self.find(address, 1)?];
        Some((found.base, found.bytes.len()))
    }

    /// Copies `data` to the device.
    pub fn write(&mut self, address: u64, data: &[u8]) -> Result<(), MemoryError> {
        let (mut address, mut data) = (address, data);
        while let Some(bytes) = self.bytes_of_part(address, data.len()) {
            self.make_part(address);
            if bytes == data.len() {
                break;
            }
            let (now, later) = data.split_at(bytes);
            self.write(address, now)?;
            (address, data) = (address + bytes as u64, later);
        }
        let range = self.range(address, data.len())?;
        let allocation = &mut self.allocations[range.index];
        allocation.bytes[range.start..][..data.len()].copy_from_slice(data);
        allocation.written.mark(range.start..range.start + data.len());
        Ok(())
    }

    /// Copies from the device. Uninitialised bytes read as `0xcd`.
    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        let (mut address, mut out) = (address, out);
        while let Some(bytes) = self.bytes_of_part(address, out.len()) {
            let (now, later) = std::mem::take(&mut out).split_at_mut(bytes);
            match (self.find(address, bytes as u64), self.reservations.holds(address, bytes as u64)) {
                (None, Some((byte, _))) => now.fill(byte),
                _ if later.is_empty() => {
                    out = now;
                    break;
                }
                _ => self.read(address, now)?,
            }
            if later.is_empty() {
                return Ok(());
            }
            (address, out) = (address + bytes as u64, later);
        }
        let range = self.range(address, out.len())?;
        out.copy_from_slice(&self.allocations[range.index].bytes[range.start..][..out.len()]);
        Ok(())
    }

    /// Copies within the device; the ranges may overlap. What is uninitialised stays so, but not where one of both is in a
    /// large allocation.
    pub fn copy(&mut self, to: u64, from: u64, bytes: usize) -> Result<(), MemoryError> {
        if [to, from].iter().any(|address| self.reservations.range_of(*address).is_some()) {
            let mut data = vec![0; bytes];
            self.read(from, &mut data)?;
            return self.write(to, &data);
        }
        let (to, from) = (self.range(to, bytes)?, self.range(from, bytes)?);
        let source = &self.allocations[from.index];
        let data = source.bytes[from.start..][..bytes].to_vec();
        let written = source.written.part(from.start..from.start + bytes);
        let target = &mut self.allocations[to.index];
        target.bytes[to.start..][..bytes].copy_from_slice(&data);
        target.written.put(to.start, &written);
        Ok(())
    }

    /// Writes `pattern` `count` times; a memset of 1, 2 or 4 byte units.
    pub fn fill(&mut self, address: u64, pattern: &[u8], count: usize) -> Result<(), MemoryError> {
        if self.fill_reserved(address, pattern, count) {
            return Ok(());
        }
        self.write(address, &pattern.repeat(count))
    }

    fn range(&self, address: u64, bytes: usize) -> Result<Range, MemoryError> {
        let index = self.find(address, bytes as u64).ok_or_else(|| MemoryError::OutOfBounds {
            address,
            bytes: bytes as u64,
            nearest: self.nearest(address),
        })?;
        Ok(Range { index, start: (address - self.allocations[index].base) as usize })
    }

    #[inline(always)]
    fn find(&self, address: u64, bytes: u64) -> Option<usize> {
        for index in self.last.get() {
            if self.allocations.get(index).is_some_and(|allocation| allocation.contains(address, bytes)) {
                return Some(index);
            }
        }
        self.search(address, bytes)
    }

    /// The same, where what is reserved and not there is made.
    #[inline(always)]
    fn find_or_make(&mut self, address: u64, bytes: u64) -> Option<usize> {
        self.find(address, bytes).or_else(|| {
            self.make_part(address);
            self.search(address, bytes)
        })
    }

    #[inline(never)]
    fn search(&self, address: u64, bytes: u64) -> Option<usize> {
        let index = self.allocations.partition_point(|allocation| allocation.base <= address).checked_sub(1)?;
        self.last.set([index, self.last.get()[0]]);
        self.allocations[index].contains(address, bytes).then_some(index)
    }

    /// Says in words which allocation `address` is next to.
    pub(crate) fn nearest(&self, address: u64) -> String {
        let whole = self.allocations.iter().map(|allocation| (allocation.base, allocation.bytes.len() as u64));
        let whole = whole.filter(|(base, _)| self.reservations.range_of(*base).is_none());
        let mut ranges: Vec<(u64, u64)> = whole.chain(self.reservations.ranges()).collect();
        ranges.sort_unstable();
        let index = ranges.partition_point(|(base, _)| *base <= address);
        let before = index.checked_sub(1).map(|index| ranges[index]);
        let past_end = |(base, length): (u64, u64)| address.saturating_sub(base + length);
        let ((base, length), place) = match (before, ranges.get(index).copied()) {
            (Some(found), None) => (found, format!("byte {}", address - found.0)),
            (Some(found), Some(next)) if past_end(found) <= next.0 - address => {
                (found, format!("byte {}", address - found.0))
            }
            (_, Some(found)) => (found, format!("{} bytes before the start", found.0 - address)),
            (None, None) => return "there are no allocations".to_owned(),
        };
        format!("{place} of the {length} byte allocation at {base:#x}")
    }

    /// Whether the device may load a range.
    #[inline(always)]
    pub(crate) fn check(&self, address: u64, bytes: usize, check_written: bool) -> Result<(), AccessError> {
        let Some(index) = self.find(address, bytes as u64) else {
            return self.unwritten(address, bytes, check_written).map(drop);
        };
        let allocation = &self.allocations[index];
        let start = (address - allocation.base) as usize;
        if check_written && !allocation.written.are(start..start + bytes) {
            Err(AccessError::Uninitialised)
        } else {
            Ok(())
        }
    }

    /// A device-side load of `N` bytes. Inlined, so that the bytes go to registers and not through a `Result` in memory.
    #[inline(always)]
    pub(crate) fn load<const N: usize>(&self, address: u64, check_written: bool) -> Result<[u8; N], AccessError> {
        let Some(index) = self.find(address, N as u64) else {
            return self.unwritten(address, N, check_written).map(|byte| [byte; N]);
        };
        let allocation = &self.allocations[index];
        let start = (address - allocation.base) as usize;
        if check_written && !allocation.written.are(start..start + N) {
            return Err(AccessError::Uninitialised);
        }
        let mut out = [0; N];
        out.copy_from_slice(&allocation.bytes[start..start + N]);
        Ok(out)
    }

    /// What every byte of a range holds that is reserved and not there.
    #[inline(never)]
    fn unwritten(&self, address: u64, bytes: usize, check_written: bool) -> Result<u8, AccessError> {
        let (byte, is_written) = self.reservations.holds(address, bytes as u64).ok_or(AccessError::OutOfBounds)?;
        if check_written && !is_written { Err(AccessError::Uninitialised) } else { Ok(byte) }
    }

    /// Tells blocks that run from now on from those of earlier launches.
    pub(crate) fn begin_launch(&mut self) {
        if self.watch.is_used_up() {
            self.watch = Watch::default();
            for allocation in &mut self.allocations {
                allocation.traces = Vec::new();
            }
        }
        self.watch.begin_launch();
    }

    pub(crate) fn begin_block(&mut self, index: [u32; 3]) {
        self.watch.begin_block(index);
    }

    /// The block that runs passes a fence that reaches other blocks.
    pub(crate) fn fence(&mut self) {
        self.watch.fence();
    }

    /// The block that runs may order itself by the variable at `address`.
    pub(crate) fn synchronise(&mut self, address: u64, order: Order, reads: bool, writes: bool) {
        self.watch.synchronise(address, order, reads, writes);
    }

    /// Checks an access of the device against those of other blocks. What is out of bounds is for others to say.
    #[inline(always)]
    pub(crate) fn touch(&mut self, address: u64, bytes: usize, touch: Touch) -> Result<(), Box<Clash>> {
        let Some(index) = self.find_or_make(address, bytes as u64) else { return Ok(()) };
        let allocation = &mut self.allocations[index];
        let start = (address - allocation.base) as usize;
        let result = self.watch.access(allocation.traces(), std::iter::once(start..start + bytes), touch);
        let base = allocation.base;
        result.map_err(|mut clash| {
            clash.offset += self.reservations.range_of(base).map_or(0, |(start, _)| base - start) as usize;
            clash
        })
    }

    /// A device-side store of `N` bytes.
    #[inline(always)]
    pub(crate) fn store<const N: usize>(&mut self, address: u64, data: [u8; N]) -> Result<(), AccessError> {
        let index = self.find_or_make(address, N as u64).ok_or(AccessError::OutOfBounds)?;
        let allocation = &mut self.allocations[index];
        let start = (address - allocation.base) as usize;
        allocation.bytes[start..start + N].copy_from_slice(&data);
        allocation.written.mark(start..start + N);
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Range {
    index: usize,
    start: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked_and_freed_addresses_stay_dead() {
        let mut memory = Memory::with_capacity(1000);
        let a = memory.alloc(100).unwrap();
        let b = memory.alloc(100).unwrap();
        assert!(a.is_multiple_of(256) && b >= a + 100 + RED_ZONE);
        memory.write(a + 90, &[1; 10]).unwrap();
        let error = memory.write(a + 91, &[1; 10]).unwrap_err().to_string();
        assert!(error.contains("byte 91 of the 100 byte allocation"), "{error}");
        memory.free(a).unwrap();
        assert_eq!(memory.free(a), Err(MemoryError::NotAnAllocation { address: a }));
        assert!(memory.read(a, &mut [0]).is_err());
        assert_ne!(memory.alloc(100).unwrap(), a);
        assert!(matches!(memory.alloc(900), Err(MemoryError::OutOfMemory { free: 800, .. })));
        memory.set_capacity(150);
        assert!(memory.available() == 0 && memory.write(b, &[1; 100]).is_ok());
        assert!(matches!(memory.alloc(1), Err(MemoryError::OutOfMemory { free: 0, capacity: 150, .. })));
    }

    #[test]
    fn the_nearest_allocation_is_named() {
        let mut memory = Memory::default();
        assert_eq!(memory.nearest(5), "there are no allocations");
        let a = memory.alloc(8 << 20).unwrap();
        let b = memory.alloc(16).unwrap();
        assert!(memory.nearest(a - 3).starts_with("3 bytes before the start of the 8388608 byte allocation"));
        assert!(memory.nearest(a + (8 << 20)).starts_with("byte 8388608 of the 8388608 byte allocation"));
        assert!(memory.nearest(b - 1).starts_with("1 bytes before the start of the 16 byte allocation"));
        assert!(memory.nearest(b + 99).starts_with("byte 99 of the 16 byte allocation"));
    }

    #[test]
    fn a_copy_carries_what_is_uninitialised() {
        let mut memory = Memory::default();
        let a = memory.alloc(16).unwrap();
        let b = memory.alloc(16).unwrap();
        memory.fill(a, &[1, 2], 4).unwrap();
        memory.copy(b + 4, a, 12).unwrap();
        assert_eq!(memory.load::<8>(b + 4, true), Ok([1, 2, 1, 2, 1, 2, 1, 2]));
        assert_eq!(memory.load::<4>(b + 12, true), Err(AccessError::Uninitialised));
        assert_eq!(memory.load::<4>(b + 12, false), Ok([FRESH; 4]));
    }
}
