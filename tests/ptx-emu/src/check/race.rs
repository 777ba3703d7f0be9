//! Shared-memory races: every access is compared with those that no barrier orders before it.
//!
//! Each warp has a clock that ticks at its barriers. `seen[w][v]` is the first tick of warp `v` that is *not* known to
//! have ended before what warp `w` does now. An earlier access by `v` at tick `t` is ordered before `w` exactly if
//! `t < seen[w][v]`. A block barrier joins the clocks of all who meet; `bar.warp.sync` ticks one warp's own.
//!
//! Nearly all accesses are to memory that was last touched before a barrier of the whole block. `floor[w]` is the least
//! of `seen[w]`, so one comparison with it finds these; only the rest are looked at closely.
//!
//! What is known is kept in cells: one for every unit of 16 bytes, the most that a lane accesses, as long as units are
//! accessed as a whole, and one for every granule, the least that the kernel accesses, once a unit is split.

use crate::error::FaultKind;

const NOBODY: u16 = u16::MAX;
/// Several lanes of one warp, or several warps, have read.
const SEVERAL: u16 = u16::MAX - 1;
const WARPS: usize = 32;
/// log2 of the bytes of a unit.
const UNIT_SHIFT: u32 = 4;
/// The tick of a write that is under way.
const UNSETTLED: u32 = u32::MAX;

/// What is known of a unit or a granule of shared memory.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// When it was last written: before the block began if nobody has, `UNSETTLED` while a `cp.async` is under way.
    write_tick: u32,
    read_tick: u32,
    /// Bit per warp that read since the last write.
    read_warps: u32,
    write_pc: u32,
    read_pc: u32,
    writer: u16,
    reader: u16,
    /// `cp.async` operations under way to this granule.
    pending: u8,
    /// While some are: it had been written before.
    written_before: bool,
    /// The last write was an atomic.
    atomic: bool,
    /// A unit whose granules have cells of their own; the rest of this one means nothing.
    split: bool,
}

const FRESH: Cell = Cell {
    write_tick: 0,
    read_tick: 0,
    read_warps: 0,
    write_pc: 0,
    read_pc: 0,
    writer: NOBODY,
    reader: NOBODY,
    pending: 0,
    written_before: false,
    atomic: false,
    split: false,
};

impl Cell {
    /// Whether somebody has written since the block began, at tick `start`.
    fn is_initialised(&self, start: u32) -> bool {
        if self.pending == 0 { self.write_tick >= start } else { self.written_before }
    }

    /// Whether another thread wrote, with nothing that orders that before `thread`.
    fn written_unordered(&self, thread: u16, seen: &[u32; WARPS]) -> bool {
        self.writer != NOBODY && self.writer != thread && self.write_tick >= seen[usize::from(self.writer / 32)]
    }

    /// Whether another thread read, with nothing that orders that before `thread`.
    fn read_unordered(&self, thread: u16, seen: &[u32; WARPS]) -> bool {
        let warp = usize::from(thread / 32);
        let own = self.read_warps >> warp & 1 != 0 && self.reader != thread && self.read_tick >= seen[warp];
        own || any_unordered(self.read_warps & !(1 << warp), self.read_tick, seen)
    }

    /// Which rule a write by `thread` breaks.
    fn judge_write(&self, thread: u16, how: Write, seen: &[u32; WARPS]) -> Option<FaultKind> {
        let copying = self.pending > u8::from(how == Write::CopyDone);
        if copying && (how != Write::CopyIssue || self.writer != thread) {
            return Some(FaultKind::PendingCopy);
        }
        let harmless = how == Write::Same || (how == Write::Atomic && self.atomic);
        if !harmless && self.written_unordered(thread, seen) {
            return Some(FaultKind::WriteAfterWrite);
        }
        self.read_unordered(thread, seen).then_some(FaultKind::WriteAfterRead)
    }

    /// Records a read at tick `now`, of which all is known that could speak against it.
    #[inline(always)]
    fn note_read(&mut self, access: &Access, now: u32, floor: u32, seen: &[u32; WARPS]) {
        let bit = 1 << access.warp;
        if self.read_tick < floor {
            // All earlier readers come before this one; whoever is ordered after it is ordered after them.
            self.read_warps = bit;
            self.read_tick = now;
            self.reader = access.thread();
        } else if self.read_warps != bit || self.read_tick != now {
            self.note_one_of_several(access, now, seen);
        } else if self.reader != access.thread() {
            self.reader = SEVERAL;
        }
        self.read_pc = access.pc;
    }

    fn note_one_of_several(&mut self, access: &Access, now: u32, seen: &[u32; WARPS]) {
        let bit = 1 << access.warp;
        if any_unordered(self.read_warps & !bit, self.read_tick, seen) {
            self.read_warps |= bit;
            self.read_tick = self.read_tick.max(now);
            self.reader = SEVERAL;
        } else {
            self.read_warps = bit;
            self.read_tick = now;
            self.reader = access.thread();
        }
    }

    /// Records a write at tick `now`.
    #[inline(always)]
    fn note_write(&mut self, access: &Access, now: u32) {
        self.writer = access.thread();
        self.write_tick = now;
        self.write_pc = access.pc;
        self.read_warps = 0;
        self.atomic = false;
    }
}

/// Who accesses what, from where: a power of two of bytes, at a multiple of it, and no more than a unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) warp: usize,
    pub(crate) lane: usize,
    pub(crate) pc: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
}

impl Access {
    #[inline(always)]
    fn thread(&self) -> u16 {
        (self.warp * 32 + self.lane) as u16
    }
}

/// How a write is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// A store that changes the contents.
    Store,
    /// A store of what is there already: harmless to other writers.
    Same,
    Atomic,
    /// The start of a `cp.async`.
    CopyIssue,
    /// Its completion, at the wait.
    CopyDone,
}

/// A rule broken, and by which earlier access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) kind: FaultKind,
    pub(crate) offset: u64,
    /// Thread and instruction of the earlier access; no thread if there were several.
    pub(crate) other: Option<(Option<u32>, u32)>,
}

/// Which rules to hold accesses to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) races: bool,
    pub(crate) uninitialised: bool,
}

/// Shadow of a block's shared memory.
#[derive(Debug)]
pub(crate) struct Shadow {
    /// Those of the units, and then those of the granules.
    cells: Vec<Cell>,
    units: usize,
    /// log2 of the bytes of a granule.
    shift: u32,
    rules: Rules,
    warps: usize,
    seen: [[u32; WARPS]; WARPS],
    /// The least of `seen`, per warp.
    floor: [u32; WARPS],
    /// The first tick of the block. Blocks go on counting where the last one stopped, so that a cell of an earlier block
    /// is known by its tick and need not be cleared.
    start: u32,
    /// Cells to which a copy is under way.
    copying: usize,
}

impl Shadow {
    /// For `bytes` bytes, in granules of `1 << shift`, accessed by `warps` warps.
    pub(crate) fn new(bytes: usize, shift: u32, rules: Rules, warps: usize) -> Self {
        let units = if rules.races || rules.uninitialised { bytes.div_ceil(1 << UNIT_SHIFT) } else { 0 };
        Self {
            cells: vec![FRESH; units + (units << (UNIT_SHIFT - shift))],
            units,
            shift,
            rules,
            warps,
            seen: [[1; WARPS]; WARPS],
            floor: [1; WARPS],
            start: 1,
            copying: 0,
        }
    }

    /// Whether there is anything to check.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        !self.cells.is_empty()
    }

    /// Forgets everything, for the next block.
    pub(crate) fn reset(&mut self) {
        let latest = (0..self.warps).map(|warp| self.seen[warp][warp]).max().unwrap_or(0);
        if self.copying > 0 || latest > UNSETTLED / 2 {
            self.cells.fill(FRESH);
            self.copying = 0;
            self.start = 1;
        } else {
            self.start = latest + 1;
        }
        self.seen = [[self.start; WARPS]; WARPS];
        self.floor = [self.start; WARPS];
    }

    /// The warps in `members` have met at a barrier.
    pub(crate) fn join(&mut self, members: u32) {
        let of = |warp: &usize| members >> warp & 1 != 0;
        let mut joined = [0; WARPS];
        for warp in (0..WARPS).filter(of) {
            for (known, seen) in joined.iter_mut().zip(&self.seen[warp]) {
                *known = (*known).max(*seen);
            }
        }
        let tick = (0..WARPS).filter(of).map(|warp| self.seen[warp][warp]).max().unwrap_or(0) + 1;
        for warp in (0..WARPS).filter(of) {
            joined[warp] = tick;
        }
        let floor = joined[..self.warps].iter().copied().min().unwrap_or(0);
        for warp in (0..WARPS).filter(of) {
            self.seen[warp] = joined;
            self.floor[warp] = floor;
        }
    }

    /// The lanes of `warp` have met.
    pub(crate) fn tick(&mut self, warp: usize) {
        self.seen[warp][warp] += 1;
        self.floor[warp] = self.seen[warp][..self.warps].iter().copied().min().unwrap_or(0);
    }

    /// The cells of what is accessed.
    #[inline(always)]
    fn cells(&mut self, access: &Access) -> std::ops::Range<usize> {
        let unit = (access.offset >> UNIT_SHIFT) as usize;
        let whole = access.bytes == 1 << UNIT_SHIFT;
        if !self.cells[unit].split {
            if whole {
                return unit..unit + 1;
            }
            self.split(unit);
        }
        let first = self.units + (access.offset >> self.shift) as usize;
        first..first + (access.bytes >> self.shift) as usize
    }

    fn granules_of(&self, unit: usize) -> std::ops::Range<usize> {
        let granules = 1 << (UNIT_SHIFT - self.shift);
        let first = self.units + unit * granules;
        first..first + granules
    }

    #[inline(never)]
    fn split(&mut self, unit: usize) {
        let (cell, granules) = (self.cells[unit], self.granules_of(unit));
        if cell.pending > 0 {
            self.copying += granules.len() - 1;
        }
        self.cells[granules].fill(cell);
        self.cells[unit].split = true;
    }

    /// Makes one of a unit's granules again before a write to all of it, if they were last touched before tick `floor`,
    /// and all or none of them have been written.
    #[inline(never)]
    fn join_granules(&mut self, unit: usize, floor: u32) {
        let granules = &self.cells[self.granules_of(unit)];
        let first = granules[0];
        let alike = |cell: &Cell| {
            let settled = cell.write_tick < floor && cell.read_tick < floor;
            settled && cell.is_initialised(self.start) == first.is_initialised(self.start)
        };
        if granules.iter().all(alike) {
            self.cells[unit] = first;
        }
    }

    fn conflict(&self, kind: FaultKind, cell: usize, other: Option<(u16, u32)>) -> Conflict {
        let other = other.map(|(thread, pc)| ((thread < SEVERAL).then_some(u32::from(thread)), pc));
        let (index, shift) = if cell < self.units { (cell, UNIT_SHIFT) } else { (cell - self.units, self.shift) };
        Conflict { kind, offset: (index as u64) << shift, other }
    }

    /// Checks and records a read.
    #[inline(always)]
    pub(crate) fn read(&mut self, access: &Access) -> Result<(), Conflict> {
        let (start, floor) = (self.start, self.floor[access.warp]);
        for index in self.cells(access) {
            let seen = &self.seen[access.warp];
            let cell = &mut self.cells[index];
            // Written in this block, and before a barrier of all.
            if cell.write_tick.wrapping_sub(start) < floor - start {
                cell.note_read(access, seen[access.warp], floor, seen);
            } else {
                self.read_closely(access, index)?;
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn read_closely(&mut self, access: &Access, index: usize) -> Result<(), Conflict> {
        let seen = &self.seen[access.warp];
        let cell = &self.cells[index];
        if self.rules.races {
            let kind = if cell.pending != 0 {
                Some(FaultKind::PendingCopy)
            } else {
                cell.written_unordered(access.thread(), seen).then_some(FaultKind::ReadAfterWrite)
            };
            if let Some(kind) = kind {
                return Err(self.conflict(kind, index, Some((cell.writer, cell.write_pc))));
            }
        }
        if self.rules.uninitialised && !cell.is_initialised(self.start) {
            return Err(self.conflict(FaultKind::Uninitialised, index, None));
        }
        self.cells[index].note_read(access, seen[access.warp], self.floor[access.warp], seen);
        Ok(())
    }

    /// Checks and records a write.
    #[inline(always)]
    pub(crate) fn write(&mut self, access: &Access, how: Write) -> Result<(), Conflict> {
        let floor = self.floor[access.warp];
        let now = self.seen[access.warp][access.warp];
        if access.bytes == 1 << UNIT_SHIFT {
            let unit = (access.offset >> UNIT_SHIFT) as usize;
            if self.cells[unit].split {
                self.join_granules(unit, floor);
            }
        }
        for index in self.cells(access) {
            let cell = &mut self.cells[index];
            let settled = cell.write_tick < floor && cell.read_tick < floor;
            match how {
                // Last touched before a barrier of all.
                Write::Store | Write::Same if settled => cell.note_write(access, now),
                Write::CopyIssue if settled => {
                    cell.written_before = cell.is_initialised(self.start);
                    cell.note_write(access, UNSETTLED);
                    cell.pending = 1;
                    self.copying += 1;
                }
                // Nobody has touched it since this thread began to copy.
                Write::CopyDone if cell.pending == 1 && cell.writer == access.thread() && cell.read_warps == 0 => {
                    cell.note_write(access, now);
                    cell.pending = 0;
                    self.copying -= 1;
                }
                _ => self.write_closely(access, how, index)?,
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn write_closely(&mut self, access: &Access, how: Write, index: usize) -> Result<(), Conflict> {
        let seen = &self.seen[access.warp];
        let cell = &self.cells[index];
        if self.rules.races
            && let Some(kind) = cell.judge_write(access.thread(), how, seen)
        {
            let other = match kind {
                FaultKind::WriteAfterRead => (cell.reader, cell.read_pc),
                _ => (cell.writer, cell.write_pc),
            };
            return Err(self.conflict(kind, index, Some(other)));
        }
        let initialised = cell.is_initialised(self.start);
        if self.rules.uninitialised && how == Write::Atomic && !initialised {
            return Err(self.conflict(FaultKind::Uninitialised, index, None));
        }
        let now = seen[access.warp];
        let cell = &mut self.cells[index];
        let was_pending = cell.pending;
        match how {
            Write::CopyIssue => cell.pending = cell.pending.saturating_add(1),
            Write::CopyDone => cell.pending = cell.pending.saturating_sub(1),
            Write::Store | Write::Same | Write::Atomic => {}
        }
        self.copying = self.copying + usize::from(cell.pending > 0) - usize::from(was_pending > 0);
        cell.written_before = initialised || how != Write::CopyIssue;
        cell.note_write(access, if cell.pending > 0 { UNSETTLED } else { now });
        cell.atomic = how == Write::Atomic;
        Ok(())
    }
}

/// Whether one of `warps` is not known to be past `tick`.
#[inline]
fn any_unordered(warps: u32, tick: u32, seen: &[u32; WARPS]) -> bool {
    let mut rest = warps;
    while rest != 0 {
        if tick >= seen[rest.trailing_zeros() as usize] {
            return true;
        }
        rest &= rest - 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shadow() -> Shadow {
        Shadow::new(64, 2, Rules { races: true, uninitialised: true }, 3)
    }

    /// The first lane of `warp` at the first word.
    fn by(warp: usize) -> Access {
        Access { warp, lane: 0, pc: 0, offset: 0, bytes: 4 }
    }

    fn kind(result: Result<(), Conflict>) -> Option<FaultKind> {
        result.err().map(|conflict| conflict.kind)
    }

    #[test]
    fn a_barrier_orders_only_those_who_meet() {
        let mut shadow = shadow();
        shadow.write(&by(0), Write::Store).unwrap();
        shadow.join(0b011);
        shadow.read(&by(1)).unwrap();
        assert_eq!(kind(shadow.read(&by(2))), Some(FaultKind::ReadAfterWrite));
        // Order is passed on: 0 before 1 before 2.
        shadow.join(0b110);
        shadow.read(&by(2)).unwrap();
        // Warp 0 has met neither reader since they read.
        assert_eq!(kind(shadow.write(&by(0), Write::Store)), Some(FaultKind::WriteAfterRead));
        shadow.join(0b101);
        assert_eq!(kind(shadow.write(&by(0), Write::Store)), None, "warp 1 read before it met warp 2");
    }

    #[test]
    fn lanes_of_a_warp_are_ordered_by_its_own_ticks() {
        let mut shadow = shadow();
        let other = Access { lane: 1, ..by(0) };
        shadow.write(&by(0), Write::Store).unwrap();
        assert_eq!(kind(shadow.read(&other)), Some(FaultKind::ReadAfterWrite));
        shadow.tick(0);
        shadow.read(&other).unwrap();
        assert_eq!(kind(shadow.write(&by(0), Write::Store)), Some(FaultKind::WriteAfterRead));
        shadow.tick(0);
        shadow.write(&by(0), Write::Store).unwrap();
    }

    #[test]
    fn equal_values_and_atomics_do_not_race_with_their_like() {
        let mut shadow = shadow();
        shadow.write(&by(0), Write::Store).unwrap();
        shadow.write(&by(1), Write::Same).unwrap();
        assert_eq!(kind(shadow.write(&by(2), Write::Store)), Some(FaultKind::WriteAfterWrite));
        shadow.join(0b111);
        shadow.write(&by(0), Write::Atomic).unwrap();
        shadow.write(&by(1), Write::Atomic).unwrap();
        assert_eq!(kind(shadow.write(&by(2), Write::Store)), Some(FaultKind::WriteAfterWrite));
        assert_eq!(kind(shadow.read(&by(2))), Some(FaultKind::ReadAfterWrite));
    }

    #[test]
    fn a_copy_is_under_way_until_it_is_waited_for() {
        let mut shadow = shadow();
        shadow.write(&by(0), Write::CopyIssue).unwrap();
        assert_eq!(kind(shadow.read(&by(0))), Some(FaultKind::PendingCopy));
        assert_eq!(kind(shadow.write(&by(0), Write::Store)), Some(FaultKind::PendingCopy));
        shadow.write(&by(0), Write::CopyDone).unwrap();
        shadow.read(&by(0)).unwrap();
        assert_eq!(kind(shadow.read(&by(1))), Some(FaultKind::ReadAfterWrite), "the wait is the copying thread's own");
        shadow.join(0b11);
        shadow.read(&by(1)).unwrap();
    }

    /// Whatever was known of a unit holds for its granules, and the other way round.
    #[test]
    fn units_and_their_granules_are_one_memory() {
        let whole = |warp| Access { bytes: 16, ..by(warp) };
        let second = |warp| Access { offset: 4, ..by(warp) };
        let all = 0b111;
        let mut shadow = shadow();
        shadow.write(&whole(0), Write::Store).unwrap();
        shadow.read(&second(0)).unwrap();
        assert_eq!(kind(shadow.read(&second(1))), Some(FaultKind::ReadAfterWrite), "a part of what was written");
        shadow.join(all);
        shadow.read(&second(1)).unwrap();
        let clash = shadow.write(&whole(0), Write::Store).unwrap_err();
        assert_eq!((clash.kind, clash.offset), (FaultKind::WriteAfterRead, 4), "a part of it was read");
        shadow.join(all);
        shadow.write(&whole(0), Write::CopyIssue).unwrap();
        assert_eq!(kind(shadow.read(&second(1))), Some(FaultKind::PendingCopy));
        shadow.write(&whole(0), Write::CopyDone).unwrap();
        shadow.join(all);
        shadow.read(&whole(2)).unwrap();
        shadow.join(all);

        // After a block that wrote one word of four, the others are not there.
        shadow.reset();
        shadow.write(&second(0), Write::Store).unwrap();
        shadow.join(all);
        let clash = shadow.read(&whole(1)).unwrap_err();
        assert_eq!((clash.kind, clash.offset), (FaultKind::Uninitialised, 0));
        shadow.write(&whole(0), Write::CopyIssue).unwrap();
        shadow.write(&whole(0), Write::CopyDone).unwrap();
        shadow.join(all);
        shadow.read(&whole(1)).unwrap();
        shadow.read(&by(1)).unwrap();
        assert_eq!(shadow.copying, 0);
    }

    #[test]
    fn a_reset_forgets_all() {
        let mut shadow = shadow();
        shadow.write(&by(0), Write::Store).unwrap();
        shadow.reset();
        assert_eq!(kind(shadow.read(&by(1))), Some(FaultKind::Uninitialised));
    }
}
