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

mod cell;

use cell::{Cell, FRESH, SEVERAL, SPLIT, Ticks, UNSETTLED};

use crate::error::FaultKind;
use crate::regs::{LANES, Row, lanes, mask_of};

const WARPS: usize = 32;
/// log2 of the bytes of a unit.
const UNIT_SHIFT: u32 = 4;

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
        (self.warp * LANES + self.lane) as u16
    }
}

/// What the lanes of a warp access by one instruction, from where: each a multiple of its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accesses<'a> {
    pub(crate) warp: usize,
    pub(crate) pc: u32,
    /// The offset of each lane; those of lanes that are not in `mask` mean nothing.
    pub(crate) at: &'a Row<u64>,
    pub(crate) mask: u32,
}

impl Accesses<'_> {
    #[inline(always)]
    fn of(&self, lane: usize, bytes: usize) -> Access {
        Access { warp: self.warp, lane, pc: self.pc, offset: self.at[lane], bytes: bytes as u32 }
    }
}

/// A rule that the access of a lane breaks.
type ConflictOfLane = (usize, Conflict);

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

    #[inline(always)]
    fn ticks(&self, warp: usize) -> Ticks {
        Ticks { start: self.start, floor: self.floor[warp], now: self.seen[warp][warp] }
    }

    /// The cells of what is accessed.
    #[inline(always)]
    fn cells(&mut self, offset: u64, bytes: usize) -> std::ops::Range<usize> {
        let unit = (offset >> UNIT_SHIFT) as usize;
        if self.cells[unit].pending != SPLIT {
            if bytes == 1 << UNIT_SHIFT {
                return unit..unit + 1;
            }
            self.split(unit);
        }
        let first = self.units + (offset >> self.shift) as usize;
        first..first + (bytes >> self.shift)
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
        self.cells[unit].pending = SPLIT;
        self.cells[unit].write_tick = UNSETTLED;
    }

    /// Makes one of a unit's granules again before a write to all of it, if they were last touched before tick `floor`,
    /// and all or none of them have been written.
    #[inline(never)]
    fn join_granules(&mut self, unit: usize, floor: u32) {
        let granules = &self.cells[self.granules_of(unit)];
        let first = granules[0];
        let alike =
            |cell: &Cell| cell.is_settled(floor) && cell.is_initialised(self.start) == first.is_initialised(self.start);
        if granules.iter().all(alike) {
            self.cells[unit] = first;
        }
    }

    fn conflict(&self, kind: FaultKind, cell: usize, other: Option<(u16, u32)>) -> Conflict {
        let other = other.map(|(thread, pc)| ((thread < SEVERAL).then_some(u32::from(thread)), pc));
        let (index, shift) = if cell < self.units { (cell, UNIT_SHIFT) } else { (cell - self.units, self.shift) };
        Conflict { kind, offset: (index as u64) << shift, other }
    }

    /// Checks and records reads of `N` bytes by the lanes of a warp.
    #[inline(always)]
    pub(crate) fn read_lanes<const N: usize>(&mut self, accesses: &Accesses<'_>) -> Result<(), ConflictOfLane> {
        let &Accesses { warp, pc, at, mask } = accesses;
        let Ticks { start, floor, .. } = self.ticks(warp);
        // Written in this block, and before a barrier of all.
        let ready = |cell: &Cell| cell.write_tick.wrapping_sub(start) < floor - start;
        // Neighbours that read the same are one reader that is several.
        let mut firsts = mask_of(|lane| lane == 0 || at[lane] != at[lane - 1]);
        while firsts != 0 {
            let first = firsts.trailing_zeros();
            firsts &= firsts - 1;
            let run = mask & (u32::MAX << first) & !u32::MAX.checked_shl(firsts.trailing_zeros()).unwrap_or(0);
            if run == 0 {
                continue;
            }
            let lane = run.trailing_zeros() as usize;
            let reader = if run.is_power_of_two() { (warp * LANES + lane) as u16 } else { SEVERAL };
            let unit = (at[lane] >> UNIT_SHIFT) as usize;
            // A unit that is split is never ready.
            let cells = if N == 1 << UNIT_SHIFT { unit..unit + 1 } else { self.cells(at[lane], N) };
            let seen = &self.seen[warp];
            let cells = &mut self.cells[cells];
            if cells.iter().all(ready) {
                for cell in cells {
                    cell.note_read(warp, reader, pc, floor, seen);
                }
            } else {
                for lane in lanes(run) {
                    self.read(&accesses.of(lane, N)).map_err(|conflict| (lane, conflict))?;
                }
            }
        }
        Ok(())
    }

    /// Checks and records a read.
    #[inline(never)]
    pub(crate) fn read(&mut self, access: &Access) -> Result<(), Conflict> {
        for index in self.cells(access.offset, access.bytes as usize) {
            self.read_closely(access, index)?;
        }
        Ok(())
    }

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
        self.cells[index].note_read(access.warp, access.thread(), access.pc, self.floor[access.warp], seen);
        Ok(())
    }

    /// Checks and records writes of `N` bytes by the lanes of a warp.
    #[inline(always)]
    pub(crate) fn write_lanes<const N: usize>(
        &mut self,
        accesses: &Accesses<'_>,
        how: Write,
    ) -> Result<(), ConflictOfLane> {
        let ticks = self.ticks(accesses.warp);
        for lane in lanes(accesses.mask) {
            let writer = (accesses.warp * LANES + lane) as u16;
            let unit = (accesses.at[lane] >> UNIT_SHIFT) as usize;
            let noted = N == 1 << UNIT_SHIFT
                && self.cells[unit].note_write_at_a_glance(writer, accesses.pc, how, ticks, &mut self.copying);
            if !noted {
                self.write(&accesses.of(lane, N), how).map_err(|conflict| (lane, conflict))?;
            }
        }
        Ok(())
    }

    /// Checks and records a write.
    #[inline(always)]
    pub(crate) fn write(&mut self, access: &Access, how: Write) -> Result<(), Conflict> {
        let ticks = self.ticks(access.warp);
        if access.bytes == 1 << UNIT_SHIFT {
            let unit = (access.offset >> UNIT_SHIFT) as usize;
            if self.cells[unit].pending == SPLIT {
                self.join_granules(unit, ticks.floor);
            }
        }
        for index in self.cells(access.offset, access.bytes as usize) {
            let cell = &mut self.cells[index];
            if !cell.note_write_at_a_glance(access.thread(), access.pc, how, ticks, &mut self.copying) {
                self.write_closely(access, how, index)?;
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
            Write::CopyIssue => cell.pending = (cell.pending + 1).min(SPLIT - 1),
            Write::CopyDone => cell.pending = cell.pending.saturating_sub(1),
            Write::Store | Write::Same | Write::Atomic => {}
        }
        self.copying = self.copying + usize::from(cell.pending > 0) - usize::from(was_pending > 0);
        cell.written_before = initialised || how != Write::CopyIssue;
        cell.note_write(access.thread(), access.pc, if cell.pending > 0 { UNSETTLED } else { now });
        cell.atomic = how == Write::Atomic;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

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

    /// The accesses of a warp, lane by lane and without a short cut.
    fn one_by_one(shadow: &mut Shadow, accesses: &Accesses<'_>, bytes: usize, how: Option<Write>) -> Outcome {
        for lane in lanes(accesses.mask) {
            let access = accesses.of(lane, bytes);
            let unit = (access.offset >> UNIT_SHIFT) as usize;
            if how.is_some() && bytes == 1 << UNIT_SHIFT && shadow.cells[unit].pending == SPLIT {
                shadow.join_granules(unit, shadow.floor[access.warp]);
            }
            for index in shadow.cells(access.offset, bytes) {
                let result = match how {
                    None => shadow.read_closely(&access, index),
                    Some(how) => shadow.write_closely(&access, how, index),
                };
                result.map_err(|conflict| (lane, conflict))?;
            }
        }
        Ok(())
    }

    type Outcome = Result<(), ConflictOfLane>;

    fn together(shadow: &mut Shadow, accesses: &Accesses<'_>, bytes: usize, how: Option<Write>) -> Outcome {
        match (how, bytes) {
            (None, 4) => shadow.read_lanes::<4>(accesses),
            (None, 8) => shadow.read_lanes::<8>(accesses),
            (None, _) => shadow.read_lanes::<16>(accesses),
            (Some(how), 4) => shadow.write_lanes::<4>(accesses, how),
            (Some(how), 8) => shadow.write_lanes::<8>(accesses, how),
            (Some(how), _) => shadow.write_lanes::<16>(accesses, how),
        }
    }

    /// A cell of which two shadows know different things. Whether it was written before the copy to it means something only
    /// while there is one.
    fn difference(first: &Shadow, second: &Shadow) -> Option<String> {
        assert_eq!((first.copying, first.seen), (second.copying, second.seen));
        let known = |cell: &Cell| {
            format!("{:?}", Cell { written_before: cell.written_before && (1..SPLIT).contains(&cell.pending), ..*cell })
        };
        let mut cells = first.cells.iter().zip(&second.cells).map(|(first, second)| (known(first), known(second)));
        cells.find(|(first, second)| first != second).map(|(first, second)| format!("{first}\n{second}"))
    }

    /// Where the lanes of a warp access 512 bytes: all one place, neighbours, pairs of lanes one place, turned as against bank
    /// conflicts, or anywhere.
    fn offsets(random: &mut Random, bytes: u64) -> Row<u64> {
        let places = 512 / bytes;
        let (pattern, first) = (random.below(5), random.below(places));
        std::array::from_fn(|lane| {
            let lane = lane as u64;
            let place = match pattern {
                0 => first,
                1 => first + lane,
                2 => first + lane / 2,
                3 => lane ^ first,
                _ => random.below(places),
            };
            place % places * bytes
        })
    }

    #[test]
    fn what_a_warp_does_together_is_what_its_lanes_do_one_by_one() {
        println!("seed 13");
        let mut random = Random::new(13);
        let rules = Rules { races: true, uninitialised: true };
        let mut found = [0; 2];
        for shift in [2, 3, 4] {
            let mut shadows = [(); 2].map(|()| Shadow::new(512, shift, rules, 3));
            let mut copies = Vec::new();
            for round in 0..3000 {
                let warp = random.below(3) as usize;
                let bytes = (1 << shift) << random.below(5 - u64::from(shift));
                let masks = [u32::MAX, 0xffff, 1 << random.below(32), random.below(1 << 32) as u32];
                let mask = masks[random.below(4) as usize];
                let mut access = (warp, offsets(&mut random, bytes), mask, bytes as usize);
                let how = match random.below(12) {
                    0..5 => None,
                    5 => Some(Write::Store),
                    6 => Some(Write::Same),
                    7 => Some(Write::Atomic),
                    8 => {
                        copies.push(access);
                        Some(Write::CopyIssue)
                    }
                    9 if !copies.is_empty() => {
                        access = copies.swap_remove(random.below(copies.len() as u64) as usize);
                        Some(Write::CopyDone)
                    }
                    10 => {
                        let members = [0b111, 0b011, 0b110][random.below(3) as usize];
                        for shadow in &mut shadows {
                            shadow.join(members);
                        }
                        continue;
                    }
                    11 if round % 40 == 0 => {
                        for shadow in &mut shadows {
                            shadow.reset();
                        }
                        copies.clear();
                        continue;
                    }
                    _ => {
                        for shadow in &mut shadows {
                            shadow.tick(warp);
                        }
                        continue;
                    }
                };
                let (warp, at, mask, bytes) = access;
                let accesses = Accesses { warp, pc: round, at: &at, mask };
                let [first, second] = &mut shadows;
                let outcome = together(first, &accesses, bytes, how);
                assert_eq!(outcome, one_by_one(second, &accesses, bytes, how), "{round}: {how:?} {accesses:?}");
                if let Some(difference) = difference(first, second) {
                    panic!("{round}: {how:?} {accesses:?}: {difference}");
                }
                found[usize::from(outcome.is_err())] += 1;
            }
        }
        println!("{found:?} without and with a conflict");
        assert!(found.iter().all(|count| *count > 500), "{found:?}");
    }

    #[test]
    fn a_reset_forgets_all() {
        let mut shadow = shadow();
        shadow.write(&by(0), Write::Store).unwrap();
        shadow.reset();
        assert_eq!(kind(shadow.read(&by(1))), Some(FaultKind::Uninitialised));
    }
}
