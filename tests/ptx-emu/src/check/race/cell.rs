//! What is known of a unit or a granule of shared memory, and what may be done to it then.

use super::{WARPS, Write};
use crate::error::FaultKind;

const NOBODY: u16 = u16::MAX;
/// Several lanes of one warp, or several warps, have read.
pub(super) const SEVERAL: u16 = u16::MAX - 1;
/// The tick of a write that is under way.
pub(super) const UNSETTLED: u32 = u32::MAX;
/// In place of the number of copies under way to a unit: its granules have cells of their own, and the rest of this one,
/// which is unsettled, means nothing.
pub(super) const SPLIT: u8 = u8::MAX;

/// What is known of a unit or a granule of shared memory.
///
/// What a write changes lies together, and a cell in one line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(super) struct Cell {
    /// When it was last written: before the block began if nobody has, `UNSETTLED` while a `cp.async` is under way.
    pub(super) write_tick: u32,
    pub(super) write_pc: u32,
    /// Bit per warp that read since the last write.
    pub(super) read_warps: u32,
    pub(super) writer: u16,
    /// `cp.async` operations under way, or `SPLIT`.
    pub(super) pending: u8,
    /// The last write was an atomic.
    pub(super) atomic: bool,
    /// While copies are under way: it had been written before.
    pub(super) written_before: bool,
    pub(super) reader: u16,
    pub(super) read_tick: u32,
    pub(super) read_pc: u32,
}

pub(super) const FRESH: Cell = Cell {
    write_tick: 0,
    write_pc: 0,
    read_warps: 0,
    writer: NOBODY,
    pending: 0,
    atomic: false,
    written_before: false,
    reader: NOBODY,
    read_tick: 0,
    read_pc: 0,
};

impl Cell {
    /// Whether somebody has written since the block began, at tick `start`.
    pub(super) fn is_initialised(&self, start: u32) -> bool {
        if self.pending == 0 { self.write_tick >= start } else { self.written_before }
    }

    /// Whether another thread wrote, with nothing that orders that before `thread`.
    pub(super) fn written_unordered(&self, thread: u16, seen: &[u32; WARPS]) -> bool {
        self.writer != NOBODY && self.writer != thread && self.write_tick >= seen[usize::from(self.writer / 32)]
    }

    /// Whether another thread read, with nothing that orders that before `thread`.
    fn read_unordered(&self, thread: u16, seen: &[u32; WARPS]) -> bool {
        let warp = usize::from(thread / 32);
        let own = self.read_warps >> warp & 1 != 0 && self.reader != thread && self.read_tick >= seen[warp];
        own || any_unordered(self.read_warps & !(1 << warp), self.read_tick, seen)
    }

    /// Which rule a write by `thread` breaks.
    pub(super) fn judge_write(&self, thread: u16, how: Write, seen: &[u32; WARPS]) -> Option<FaultKind> {
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

    /// Whether it was last touched before tick `floor`.
    #[inline(always)]
    pub(super) fn is_settled(&self, floor: u32) -> bool {
        self.write_tick < floor && self.read_tick < floor
    }

    /// Records a read by `reader`, a thread of `warp` or `SEVERAL` of them, of which all is known that could speak against
    /// it.
    #[inline(always)]
    pub(super) fn note_read(&mut self, warp: usize, reader: u16, pc: u32, floor: u32, seen: &[u32; WARPS]) {
        let (bit, now) = (1 << warp, seen[warp]);
        if self.read_tick < floor {
            // All earlier readers come before this one; whoever is ordered after it is ordered after them.
            self.read_warps = bit;
            self.read_tick = now;
            self.reader = reader;
        } else if self.read_warps != bit || self.read_tick != now {
            self.note_one_of_several(warp, reader, seen);
        } else if self.reader != reader {
            self.reader = SEVERAL;
        }
        self.read_pc = pc;
    }

    fn note_one_of_several(&mut self, warp: usize, reader: u16, seen: &[u32; WARPS]) {
        let (bit, now) = (1 << warp, seen[warp]);
        if any_unordered(self.read_warps & !bit, self.read_tick, seen) {
            self.read_warps |= bit;
            self.read_tick = self.read_tick.max(now);
            self.reader = SEVERAL;
        } else {
            self.read_warps = bit;
            self.read_tick = now;
            self.reader = reader;
        }
    }

    /// Records a write at tick `now`.
    #[inline(always)]
    pub(super) fn note_write(&mut self, writer: u16, pc: u32, now: u32) {
        self.write_tick = now;
        self.write_pc = pc;
        self.read_warps = 0;
        self.writer = writer;
        self.atomic = false;
    }

    /// Records a write of which all is known that could speak against it, if that is known at a glance: what is written
    /// over was last touched before tick `floor`, or nobody has touched it since this thread began to copy.
    #[inline(always)]
    pub(super) fn note_write_at_a_glance(
        &mut self,
        writer: u16,
        pc: u32,
        how: Write,
        ticks: Ticks,
        copying: &mut usize,
    ) -> bool {
        match how {
            Write::Store | Write::Same if self.is_settled(ticks.floor) => {
                self.note_write(writer, pc, ticks.now);
            }
            Write::CopyIssue if self.is_settled(ticks.floor) => {
                self.written_before = self.is_initialised(ticks.start);
                self.note_write(writer, pc, UNSETTLED);
                self.pending = 1;
                *copying += 1;
            }
            Write::CopyDone if self.pending == 1 && self.writer == writer && self.read_warps == 0 => {
                self.note_write(writer, pc, ticks.now);
                self.pending = 0;
                *copying -= 1;
            }
            _ => return false,
        }
        true
    }
}

/// What a warp's accesses are judged by.
#[derive(Clone, Copy)]
pub(super) struct Ticks {
    /// The first tick of the block.
    pub(super) start: u32,
    /// Whatever was done before this tick comes before what the warp does.
    pub(super) floor: u32,
    /// The warp's own.
    pub(super) now: u32,
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
