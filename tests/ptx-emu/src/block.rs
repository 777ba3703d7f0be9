//! The state that the warps of a block share, and checked access to shared and global memory.

use crate::check::bank::excess_passes;
use crate::check::blocks::Clash;
use crate::check::race::{Access, Accesses, Conflict, Rules, Shadow, Write};
use crate::error::{Checked, FaultKind, RawFault};
use crate::memory::{AccessError, Memory, Units};
use crate::opcode::Copies;
use crate::options::Options;
use crate::program::Kernel;
use crate::regs::{FULL, LANES, Regs, Row, lanes};
use crate::stats::Stats;

/// What shared memory holds before it is written.
const FRESH: u8 = 0xcd;

/// State of the block that runs.
pub(crate) struct Block<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) params: &'a [u8],
    pub(crate) options: &'a Options,
    pub(crate) memory: &'a mut Memory,
    pub(crate) stats: Stats,
    shared: Vec<u8>,
    shadow: Shadow,
}

/// The part of a warp that instructions work on.
pub(crate) struct Core {
    pub(crate) id: usize,
    pub(crate) regs: Regs,
    /// Lanes that the block has.
    pub(crate) alive: u32,
    pub(crate) exited: u32,
    /// Local memory, one lane after another.
    pub(crate) local: Vec<u8>,
    pub(crate) copies: Copies,
}

/// Whose shared access it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who {
    pub(crate) warp: usize,
    pub(crate) lane: usize,
    pub(crate) pc: u32,
}

impl Who {
    fn access(self, offset: u64, bytes: usize) -> Access {
        Access { warp: self.warp, lane: self.lane, pc: self.pc, offset, bytes: bytes as u32 }
    }
}

impl<'a> Block<'a> {
    pub(crate) fn new(
        kernel: &'a Kernel,
        params: &'a [u8],
        options: &'a Options,
        memory: &'a mut Memory,
        shared_bytes: usize,
        warps: usize,
    ) -> Self {
        let rules = Rules { races: options.races, uninitialised: options.uninitialised_shared };
        Self {
            kernel,
            params,
            options,
            memory,
            stats: Stats::default(),
            shared: vec![FRESH; shared_bytes],
            shadow: Shadow::new(shared_bytes, kernel.granule_shift, rules, warps),
        }
    }

    /// Makes ready for the block `index` of the grid.
    pub(crate) fn reset(&mut self, index: [u32; 3]) {
        self.memory.begin_block(index);
        self.shared.fill(FRESH);
        self.shadow.reset();
    }

    /// The warps in `members` have met at a barrier.
    pub(crate) fn meet(&mut self, members: u32) {
        self.shadow.join(members);
        self.stats.barriers += u64::from(members.count_ones());
    }

    /// The lanes of a warp have met at `bar.warp.sync`.
    pub(crate) fn meet_lanes(&mut self, warp: usize) {
        self.shadow.tick(warp);
    }

    #[inline(always)]
    fn shared_range(&self, who: Who, offset: u64, bytes: usize) -> Checked<usize> {
        let size = self.shared.len() as u64;
        if offset <= size && bytes as u64 <= size - offset {
            return Ok(offset as usize);
        }
        Err(self.shared_fault(who, offset, bytes))
    }

    #[cold]
    fn shared_fault(&self, who: Who, offset: u64, bytes: usize) -> Box<RawFault> {
        let size = self.shared.len();
        let message = format!("shared access of {bytes} bytes out of bounds: offset {offset} of {size} bytes");
        RawFault::at_lane(FaultKind::OutOfBounds, who.lane, message)
    }

    #[inline]
    pub(crate) fn shared_load<const N: usize>(&mut self, who: Who, offset: u64) -> Checked<[u8; N]> {
        let start = self.shared_range(who, offset, N)?;
        if self.shadow.is_active() {
            let result = self.shadow.read(&who.access(offset, N));
            result.map_err(|conflict| self.explain(who, "read", conflict))?;
        }
        let mut out = [0; N];
        out.copy_from_slice(&self.shared[start..start + N]);
        Ok(out)
    }

    #[inline(always)]
    pub(crate) fn shared_store<const N: usize>(&mut self, who: Who, offset: u64, data: [u8; N]) -> Checked {
        let start = self.shared_range(who, offset, N)?;
        if self.shadow.is_active() {
            let same = self.shared[start..start + N] == data;
            self.shared_touch(who, offset, N, if same { Write::Same } else { Write::Store })?;
        }
        self.shared[start..start + N].copy_from_slice(&data);
        Ok(())
    }

    /// Offsets of a warp's accesses of `N` bytes, if all are inside and at multiples of `N`; lanes that are off have that of
    /// the first that is on.
    #[inline(always)]
    pub(crate) fn shared_units<const N: usize>(&self, addresses: &Row<u64>, mask: u32) -> Option<Row<u64>> {
        let first = addresses[mask.trailing_zeros() as usize & 31];
        let mut at = [0; LANES];
        let (mut highest, mut bits) = (0, 0);
        for lane in 0..LANES {
            at[lane] = if mask >> lane & 1 != 0 { addresses[lane] } else { first };
            highest = highest.max(at[lane]);
            bits |= at[lane];
        }
        let last = (self.shared.len() as u64).checked_sub(N as u64)?;
        (highest <= last && bits & (N as u64 - 1) == 0).then_some(at)
    }

    /// What a warp loads from shared memory, if all lanes are inside and aligned; else the caller goes lane by lane.
    #[inline(always)]
    pub(crate) fn shared_load_units<const N: usize>(
        &mut self,
        warp: usize,
        pc: u32,
        addresses: &Row<u64>,
        mask: u32,
    ) -> Checked<Option<Units<'_>>> {
        let Some(at) = self.shared_units::<N>(addresses, mask) else { return Ok(None) };
        if self.shadow.is_active() {
            let result = self.shadow.read_lanes::<N>(&Accesses { warp, pc, at: &at, mask });
            result.map_err(|(lane, conflict)| self.explain(Who { warp, lane, pc }, "read", conflict))?;
        }
        Ok(Some(Units { bytes: &self.shared, at }))
    }

    /// Replaces `N` bytes by `update` of them and returns what was there.
    pub(crate) fn shared_atomic<const N: usize>(
        &mut self,
        who: Who,
        offset: u64,
        update: impl FnOnce([u8; N]) -> [u8; N],
    ) -> Checked<[u8; N]> {
        let start = self.shared_range(who, offset, N)?;
        self.shared_touch(who, offset, N, Write::Atomic)?;
        let mut old = [0; N];
        old.copy_from_slice(&self.shared[start..start + N]);
        self.shared[start..start + N].copy_from_slice(&update(old));
        Ok(old)
    }

    /// Checks a write without making it.
    #[inline(always)]
    pub(crate) fn shared_touch(&mut self, who: Who, offset: u64, bytes: usize, how: Write) -> Checked {
        self.shared_range(who, offset, bytes)?;
        if !self.shadow.is_active() {
            return Ok(());
        }
        let result = self.shadow.write(&who.access(offset, bytes), how);
        result.map_err(|conflict| self.explain(who, "write", conflict))
    }

    /// Checks writes of `N` bytes by the lanes of a warp, which are known to be inside and aligned, without making them.
    #[inline(always)]
    pub(crate) fn shared_touch_units<const N: usize>(&mut self, accesses: &Accesses<'_>, how: Write) -> Checked {
        if !self.shadow.is_active() {
            return Ok(());
        }
        let &Accesses { warp, pc, .. } = accesses;
        let result = self.shadow.write_lanes::<N>(accesses, how);
        result.map_err(|(lane, conflict)| self.explain(Who { warp, lane, pc }, "write", conflict))
    }

    /// Has the lanes in `mask` copy `N` bytes each to offsets in shared memory that have been checked, from what has been
    /// checked too, if they copy from one allocation; else does nothing and returns false.
    #[inline(always)]
    pub(crate) fn shared_copy<const N: usize>(&mut self, to: &Row<u64>, from: &Row<u64>, mask: u32) -> bool {
        let Some(units) = self.memory.load_units::<N>(from, mask, false, None) else { return false };
        self.stats.global_load_bytes += N as u64 * u64::from(mask.count_ones());
        let copy = |lane: usize| {
            let bytes = &units.bytes[units.at[lane] as usize..][..N];
            self.shared[to[lane] as usize..][..N].copy_from_slice(bytes);
        };
        // The same, without looking for lanes.
        if mask == FULL {
            (0..LANES).for_each(copy);
        } else {
            lanes(mask).for_each(copy);
        }
        true
    }

    /// Writes to an offset in shared memory that has been checked.
    #[inline(always)]
    pub(crate) fn shared_put<const N: usize>(&mut self, offset: u64, data: [u8; N]) {
        self.shared[offset as usize..][..N].copy_from_slice(&data);
    }

    #[cold]
    fn explain(&self, who: Who, what: &str, conflict: Conflict) -> Box<RawFault> {
        let me = who.warp * 32 + who.lane;
        let offset = conflict.offset;
        let other = conflict.other.map(|(thread, pc)| {
            let thread = thread.map_or("several threads".to_owned(), |thread| format!("thread {thread}"));
            format!("{thread} ({})", self.site(pc))
        });
        let other = other.unwrap_or_default();
        let message = match conflict.kind {
            FaultKind::ReadAfterWrite => {
                format!(
                    "shared race, read after write: thread {me} reads offset {offset}, no barrier since {other} wrote"
                )
            }
            FaultKind::WriteAfterRead => {
                format!(
                    "shared race, write after read: thread {me} writes offset {offset}, no barrier since {other} read"
                )
            }
            FaultKind::WriteAfterWrite => {
                format!(
                    "shared race, write after write: thread {me} writes offset {offset}, no barrier since {other} wrote"
                )
            }
            FaultKind::PendingCopy => {
                format!(
                    "shared {what} at offset {offset} by thread {me} while the cp.async of {other} is not waited for"
                )
            }
            _ => format!("uninitialised shared {what} at offset {offset} by thread {me}"),
        };
        RawFault::at_lane(conflict.kind, who.lane, message)
    }

    #[inline(always)]
    pub(crate) fn global_load<const N: usize>(&mut self, lane: usize, address: u64) -> Checked<[u8; N]> {
        match self.memory.load(address, self.options.uninitialised_global) {
            Ok(data) => Ok(data),
            Err(error) => Err(self.global_fault("load", lane, address, N, error)),
        }
    }

    #[inline(always)]
    pub(crate) fn global_store<const N: usize>(&mut self, lane: usize, address: u64, data: [u8; N]) -> Checked {
        match self.memory.store(address, data) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.global_fault("store", lane, address, N, error)),
        }
    }

    /// An error unless the bytes can be loaded.
    #[inline(always)]
    pub(crate) fn global_check(&self, lane: usize, address: u64, bytes: usize) -> Checked {
        self.memory
            .check(address, bytes, self.options.uninitialised_global)
            .map_err(|error| self.global_fault("load", lane, address, bytes, error))
    }

    /// Loads as many bytes as `out` has.
    pub(crate) fn global_copy(&mut self, lane: usize, address: u64, out: &mut [u8]) -> Checked {
        if out.is_empty() {
            return Ok(());
        }
        self.global_check(lane, address, out.len())?;
        self.stats.global_load_bytes += out.len() as u64;
        self.memory
            .read(address, out)
            .map_err(|_| self.global_fault("load", lane, address, out.len(), AccessError::OutOfBounds))
    }

    #[cold]
    fn global_fault(&self, what: &str, lane: usize, address: u64, bytes: usize, error: AccessError) -> Box<RawFault> {
        let (kind, text) = match error {
            AccessError::OutOfBounds => (FaultKind::OutOfBounds, "out of bounds"),
            AccessError::Uninitialised => (FaultKind::Uninitialised, "of uninitialised memory"),
        };
        let nearest = self.memory.nearest(address);
        RawFault::at_lane(kind, lane, format!("global {what} of {bytes} bytes {text} at {address:#x}: {nearest}"))
    }

    #[cold]
    pub(crate) fn clash(&self, lane: usize, address: u64, clash: &Clash) -> Box<RawFault> {
        let verb = |writes: bool| if writes { "writes" } else { "reads" };
        let block = clash.block.map_or("another".to_owned(), |[x, y, z]| format!("({x},{y},{z})"));
        let site = clash.pc.map_or("somewhere".to_owned(), |pc| self.site(pc));
        let base = self.memory.allocation_of(address).map_or(address, |(base, _)| base);
        let place = self.memory.nearest(base + clash.offset as u64);
        let message = format!(
            "race between blocks: this one {} {place}, block {block} {} it at {site}, and nothing orders them",
            verb(clash.writes),
            verb(clash.other_writes),
        );
        RawFault::at_lane(FaultKind::BlockRace, lane, message)
    }

    /// Of a store by which two lanes leave different values in one place.
    #[cold]
    pub(crate) fn store_conflict(&self, lost: usize, kept: usize, address: u64) -> Box<RawFault> {
        let place = self.memory.nearest(address);
        let message =
            format!("lanes {lost} and {kept} store different values at {place}, and nothing says which of them stays");
        RawFault::at_lane(FaultKind::StoreConflict, lost, message)
    }

    /// An instruction as messages name it.
    fn site(&self, pc: u32) -> String {
        let site = &self.kernel.sites[pc as usize];
        let source = self.kernel.source(pc as usize).map_or(String::new(), |source| format!("{source}, "));
        format!("{source}PTX line {}: {}", site.line, site.text)
    }

    /// Counts a warp's shared access.
    #[inline(always)]
    pub(crate) fn count_shared(&mut self, addresses: &Row<u64>, mask: u32, bytes: u32) {
        self.stats.shared_accesses += 1;
        if self.options.bank_conflicts {
            self.stats.bank_conflict_passes += excess_passes(addresses, mask, bytes);
        }
    }
}
