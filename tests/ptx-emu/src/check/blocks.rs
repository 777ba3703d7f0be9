//! Races between blocks: two blocks of one launch touch a byte of global memory, one of them writes, and nothing orders
//! the two.
//!
//! Blocks run one after another, so an access need only be compared with those of blocks that have run. Time is counted
//! in *stamps*: a launch begins with one of its own, every block begins with a new one, and so does what follows a fence.
//! Stamps are never used twice; what is older than the launch is forgotten without being cleared.
//!
//! What orders blocks is the protocol of the PTX memory model: a block writes, passes a fence or makes a release, and
//! updates a variable by an atomic or another strong access; another block sees that update by a strong access, which is
//! an acquire or followed by a fence.

use std::collections::HashMap;
use std::ops::Range;

/// Bytes of a line, of which one record is kept as long as blocks access it alike.
pub(crate) const LINE: usize = 128;
/// Bytes of a cell; a line has a bit for each of its cells.
const UNIT: usize = 16;
const UNITS: usize = LINE / UNIT;
/// A place in the code that is too far back to be kept.
const SOMEWHERE: u16 = 0x7fff;
/// Beside a place: the access was strong.
const STRONG: u16 = 0x8000;

/// How an access orders others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    #[default]
    Weak,
    /// Strong for the threads of its block, and weak for those of others, whom its scope does not reach.
    OfBlock,
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
}

impl Order {
    /// Whether it is strong for threads of other blocks as well.
    #[inline(always)]
    pub(crate) fn reaches_blocks(self) -> bool {
        !matches!(self, Self::Weak | Self::OfBlock)
    }

    fn acquires(self) -> bool {
        matches!(self, Self::Acquire | Self::AcquireRelease)
    }

    fn releases(self) -> bool {
        matches!(self, Self::Release | Self::AcquireRelease)
    }
}

/// What an instruction does to global memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub(crate) writes: bool,
    /// It is no data race with others that are strong.
    pub(crate) strong: bool,
    pub(crate) pc: u32,
}

/// An access that races, and with what.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Clash {
    pub(crate) writes: bool,
    pub(crate) other_writes: bool,
    /// First byte in question, within the allocation.
    pub(crate) offset: usize,
    /// The other block, if it was only one.
    pub(crate) block: Option<[u32; 3]>,
    /// Where the other access is in the code, unless that is too far back.
    pub(crate) pc: Option<u32>,
}

/// What is known of the parts of a line or a cell: the stamp of who wrote last and who read last, which parts each did,
/// and where. The parts of a line are cells, those of a cell bytes.
///
/// A reader that is the launch itself stands for several blocks. A writer that is the launch itself stands for more than
/// fits in here; the reader is then an index of [`Watch::cells`] or [`Watch::bytes`]. All zeros is what nobody has touched.
pub(crate) type Trace = [u32; 4];

/// Traces for that many bytes.
pub(crate) fn traces(bytes: usize) -> Vec<Trace> {
    vec![[0; 4]; bytes.div_ceil(LINE)]
}

#[derive(Clone, Copy, Debug, Default)]
struct Unpacked {
    writer: u32,
    reader: u32,
    written: u16,
    read: u16,
    write_site: u16,
    read_site: u16,
}

impl Unpacked {
    #[inline(always)]
    fn of(trace: Trace) -> Self {
        let [writer, reader, parts, sites] = trace;
        let (written, read) = (parts as u16, (parts >> 16) as u16);
        Self { writer, reader, written, read, write_site: sites as u16, read_site: (sites >> 16) as u16 }
    }

    #[inline(always)]
    fn pack(self) -> Trace {
        let pair = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
        [self.writer, self.reader, pair(self.written, self.read), pair(self.write_site, self.read_site)]
    }
}

/// The same for one byte; a stamp of zero is nobody's.
#[derive(Clone, Copy, Debug, Default)]
struct Byte {
    writer: u32,
    reader: u32,
    write_site: u16,
    read_site: u16,
}

/// First and last stamp of what a block had done when it made it known.
type Span = (u32, u32);

/// The watch over all of a device's memory.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    launch: u32,
    /// The first stamp of the block that runs.
    block: u32,
    now: u32,
    /// The last stamp before the block's last fence.
    released: u32,
    /// The blocks that have run and their first stamps, ascending.
    blocks: Vec<(u32, [u32; 3])>,
    /// What comes before all that the block does from now on, and what will once it passes a fence.
    acquired: Vec<Span>,
    observed: Vec<Span>,
    /// What was made known by updates of a variable.
    published: HashMap<u64, Vec<Span>>,
    cells: Vec<[Trace; UNITS]>,
    bytes: Vec<[Byte; UNIT]>,
}

impl Watch {
    pub(crate) fn begin_launch(&mut self) {
        self.now += 1;
        self.launch = self.now;
        self.blocks.clear();
        self.published.clear();
        self.cells.clear();
        self.bytes.clear();
    }

    /// Whether stamps run out, and all cells have to be cleared before the next launch.
    pub(crate) fn is_used_up(&self) -> bool {
        self.now > u32::MAX / 2
    }

    pub(crate) fn begin_block(&mut self, index: [u32; 3]) {
        self.released = self.now;
        self.now += 1;
        self.block = self.now;
        self.blocks.push((self.now, index));
        self.acquired.clear();
        self.observed.clear();
    }

    /// The block has passed a fence that reaches other blocks.
    pub(crate) fn fence(&mut self) {
        self.released = self.now;
        self.now += 1;
        self.acquired.append(&mut self.observed);
    }

    /// The block accesses the variable at `address` in a way that may order others; `reads` and `writes` say how.
    pub(crate) fn synchronise(&mut self, address: u64, order: Order, reads: bool, writes: bool) {
        if !order.reaches_blocks() {
            return;
        }
        if order.releases() {
            self.released = self.now;
            self.now += 1;
        }
        if reads && let Some(spans) = self.published.get(&address) {
            let to = if order.acquires() { &mut self.acquired } else { &mut self.observed };
            to.extend_from_slice(spans);
        }
        if writes && self.released >= self.block {
            // Who sees this update also sees what this block had seen.
            let spans = self.published.entry(address).or_default();
            spans.push((self.block, self.released));
            spans.extend_from_slice(&self.acquired);
        }
    }

    fn is_of_launch(&self, stamp: u32) -> bool {
        stamp >= self.launch
    }

    /// Whether a stamp of this launch is another block's, and nothing orders that before this one.
    fn is_unordered(&self, stamp: u32) -> bool {
        stamp >= self.launch
            && stamp < self.block
            && !self.acquired.iter().any(|&(first, last)| first <= stamp && stamp <= last)
    }

    fn site(touch: Touch) -> u16 {
        let place = u16::try_from(touch.pc).map_or(SOMEWHERE, |pc| pc.min(SOMEWHERE));
        place | if touch.strong { STRONG } else { 0 }
    }

    /// Checks and records an access to ranges of bytes, none of which is empty.
    #[inline(always)]
    pub(crate) fn access(
        &mut self,
        traces: &mut [Trace],
        ranges: impl Iterator<Item = Range<usize>>,
        touch: Touch,
    ) -> Result<(), Box<Clash>> {
        // Neighbours may be in one line, and are looked at together.
        let (mut line, mut bytes) = (usize::MAX, 0);
        for range in ranges {
            let mut start = range.start;
            while start < range.end {
                let end = range.end.min((start / LINE + 1) * LINE);
                if start / LINE != line {
                    if bytes != 0 {
                        self.access_line(traces, line, bytes, touch)?;
                    }
                    (line, bytes) = (start / LINE, 0);
                }
                bytes |= (u128::MAX >> (LINE - (end - start))) << (start % LINE);
                start = end;
            }
        }
        if bytes == 0 { Ok(()) } else { self.access_line(traces, line, bytes, touch) }
    }

    /// Checks and records an access to the bytes of a line that `bytes` has a bit for; there are some.
    #[inline(always)]
    fn access_line(&mut self, traces: &mut [Trace], line: usize, bytes: u128, touch: Touch) -> Result<(), Box<Clash>> {
        let trace = Unpacked::of(traces[line]);
        match whole_units(bytes).and_then(|units| self.together(trace, units, touch)) {
            Some(new) => {
                traces[line] = new.pack();
                Ok(())
            }
            None => self.access_cells(&mut traces[line], line, bytes, touch),
        }
    }

    /// What is known after an access to `parts` of a line or a cell, if it is no race, and fits into one record.
    #[inline(always)]
    fn together(&self, trace: Unpacked, parts: u16, touch: Touch) -> Option<Unpacked> {
        let no_other_writes = trace.writer < self.launch || trace.writer >= self.block;
        let no_other_reads = trace.reader < self.launch || trace.reader >= self.block;
        if touch.writes {
            let before = if trace.writer == self.now { trace.written } else { 0 };
            // An earlier write by this block, of other parts and before a fence, would be forgotten.
            let keeps = trace.writer < self.block || trace.writer == self.now || trace.written & !parts == 0;
            (no_other_writes && no_other_reads && keeps && !touch.strong).then_some(Unpacked {
                writer: self.now,
                written: before | parts,
                write_site: Self::site(touch),
                ..trace
            })
        } else if touch.strong || !no_other_writes {
            None
        } else if no_other_reads {
            let before = if trace.reader >= self.block { trace.read } else { 0 };
            let read = before | parts;
            Some(Unpacked { reader: self.now, read, read_site: Self::site(touch), ..trace })
        } else if trace.reader == self.launch && trace.read & parts == parts {
            Some(trace)
        } else {
            // A second block reads what one has read.
            (trace.reader > self.launch && trace.read == parts).then_some(Unpacked { reader: self.launch, ..trace })
        }
    }

    /// As `access_line`, cell by cell.
    #[inline(never)]
    fn access_cells(&mut self, trace: &mut Trace, line: usize, bytes: u128, touch: Touch) -> Result<(), Box<Clash>> {
        let known = Unpacked::of(*trace);
        let place = if known.writer == self.launch {
            known.reader as usize
        } else {
            let all = |parts: u16, unit: usize| if parts >> unit & 1 != 0 { u16::MAX } else { 0 };
            let cell =
                |unit| Unpacked { written: all(known.written, unit), read: all(known.read, unit), ..known }.pack();
            self.cells.push(std::array::from_fn(cell));
            let place = self.cells.len() - 1;
            *trace = [self.launch, place as u32, 0, 0];
            place
        };
        for unit in 0..UNITS {
            let mask = (bytes >> (UNIT * unit)) as u16;
            if mask != 0 {
                let mut cell = self.cells[place][unit];
                match self.together(Unpacked::of(cell), mask, touch) {
                    Some(new) => cell = new.pack(),
                    None => self.access_closely(&mut cell, line * LINE + unit * UNIT, mask, touch)?,
                }
                self.cells[place][unit] = cell;
            }
        }
        Ok(())
    }

    /// As `access_line` for the cell at `offset`, byte by byte.
    fn access_closely(&mut self, cell: &mut Trace, offset: usize, mask: u16, touch: Touch) -> Result<(), Box<Clash>> {
        let (mut bytes, place) = self.spread(*cell);
        for index in (0..UNIT).filter(|index| mask >> index & 1 != 0) {
            let byte = &mut bytes[index];
            let at = offset + index;
            let is_race = |stamp, site: u16| self.is_unordered(stamp) && !(touch.strong && site & STRONG != 0);
            if is_race(byte.writer, byte.write_site) {
                return Err(self.clash(touch, true, at, byte.writer, byte.write_site));
            }
            if touch.writes {
                if is_race(byte.reader, byte.read_site) {
                    return Err(self.clash(touch, false, at, byte.reader, byte.read_site));
                }
                (byte.writer, byte.write_site) = (self.now, Self::site(touch));
            } else {
                let several = self.is_of_launch(byte.reader) && byte.reader < self.block;
                // Of several reads, all are strong or none is taken to be.
                let all_strong = !self.is_of_launch(byte.reader) || byte.read_site & STRONG != 0;
                let site = Self::site(Touch { strong: touch.strong && all_strong, ..touch });
                (byte.reader, byte.read_site) = (if several { self.launch } else { self.now }, site);
            }
        }
        *cell = if let Some(together) = self.gather(&bytes) {
            together.pack()
        } else {
            let place = place.unwrap_or_else(|| {
                self.bytes.push(bytes);
                self.bytes.len() - 1
            });
            self.bytes[place] = bytes;
            [self.launch, place as u32, 0, 0]
        };
        Ok(())
    }

    /// What a cell says of each byte, and where that is kept already.
    fn spread(&self, cell: Trace) -> ([Byte; UNIT], Option<usize>) {
        let cell = Unpacked::of(cell);
        if cell.writer == self.launch {
            let place = cell.reader as usize;
            return (self.bytes[place], Some(place));
        }
        let one = |index: usize| {
            let writer = if cell.written >> index & 1 != 0 { cell.writer } else { 0 };
            let reader = if cell.read >> index & 1 != 0 { cell.reader } else { 0 };
            Byte { writer, reader, write_site: cell.write_site, read_site: cell.read_site }
        };
        (std::array::from_fn(one), None)
    }

    /// What is known of the bytes as one cell, if there is one writer and one reader.
    fn gather(&self, bytes: &[Byte; UNIT]) -> Option<Unpacked> {
        let mut cell = Unpacked::default();
        for (index, byte) in bytes.iter().enumerate() {
            let bit = 1 << index;
            if self.is_of_launch(byte.writer) {
                let first = cell.written == 0;
                if !first && (cell.writer, cell.write_site & STRONG) != (byte.writer, byte.write_site & STRONG) {
                    return None;
                }
                cell =
                    Unpacked { writer: byte.writer, written: cell.written | bit, write_site: byte.write_site, ..cell };
            }
            if self.is_of_launch(byte.reader) {
                let first = cell.read == 0;
                if !first && (cell.reader, cell.read_site & STRONG) != (byte.reader, byte.read_site & STRONG) {
                    return None;
                }
                cell = Unpacked { reader: byte.reader, read: cell.read | bit, read_site: byte.read_site, ..cell };
            }
        }
        Some(cell)
    }

    #[cold]
    fn clash(&self, touch: Touch, other_writes: bool, offset: usize, stamp: u32, site: u16) -> Box<Clash> {
        let block = self.blocks.partition_point(|&(first, _)| first <= stamp).checked_sub(1);
        let place = site & !STRONG;
        Box::new(Clash {
            writes: touch.writes,
            other_writes,
            offset,
            block: block.map(|index| self.blocks[index].1),
            pc: (place != SOMEWHERE).then_some(u32::from(place)),
        })
    }
}

/// The cells of a line that `bytes` is made of, if it is all of them.
#[inline(always)]
fn whole_units(bytes: u128) -> Option<u16> {
    if bytes == u128::MAX {
        return Some((1 << UNITS) - 1);
    }
    let mut units = 0;
    let mut whole = true;
    for unit in 0..UNITS {
        let part = (bytes >> (UNIT * unit)) as u16;
        units |= u16::from(part != 0) << unit;
        whole &= part == 0 || part == u16::MAX;
    }
    whole.then_some(units)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Touch = Touch { writes: false, strong: false, pc: 1 };
    const WRITE: Touch = Touch { writes: true, strong: false, pc: 2 };
    const ATOMIC: Touch = Touch { writes: true, strong: true, pc: 3 };

    /// A launch whose blocks access 512 bytes.
    struct Launch {
        watch: Watch,
        traces: Vec<Trace>,
    }

    impl Launch {
        fn new() -> Self {
            let mut launch = Self { watch: Watch::default(), traces: traces(512) };
            launch.again();
            launch
        }

        fn again(&mut self) {
            self.watch.begin_launch();
            self.block(0);
        }

        fn block(&mut self, index: u32) {
            self.watch.begin_block([index, 0, 0]);
        }

        /// Whether the access is no race.
        fn does(&mut self, touch: Touch, offset: usize, bytes: usize) -> bool {
            self.access(touch, offset, bytes).is_ok()
        }

        fn access(&mut self, touch: Touch, offset: usize, bytes: usize) -> Result<(), Box<Clash>> {
            self.watch.access(&mut self.traces, std::iter::once(offset..offset + bytes), touch)
        }
    }

    #[test]
    fn a_write_excludes_accesses_of_other_blocks_in_either_order() {
        let mut launch = Launch::new();
        assert!(launch.does(WRITE, 0, 4) && launch.does(READ, 0, 4) && launch.does(WRITE, 0, 4));
        assert!(launch.does(READ, 16, 16));
        launch.block(1);
        let clash = launch.access(READ, 0, 4).unwrap_err();
        let expected =
            Clash { writes: false, other_writes: true, offset: 0, block: Some([0, 0, 0]), pc: Some(WRITE.pc) };
        assert_eq!(*clash, expected);
        assert!(!launch.does(WRITE, 0, 4));
        assert!(launch.does(READ, 16, 16), "both only read");
        assert!(!launch.does(WRITE, 16, 4), "block 0 has read it");
        launch.again();
        assert!(launch.does(WRITE, 16, 16), "another launch");
    }

    #[test]
    fn neighbouring_bytes_are_told_apart() {
        let mut launch = Launch::new();
        for block in 0..8 {
            launch.block(block);
            let own = 2 * block as usize;
            assert!(launch.does(READ, own, 2) && launch.does(WRITE, own, 2) && launch.does(READ, own, 2), "{block}");
        }
        assert!(!launch.does(READ, 0, 2) && !launch.does(WRITE, 12, 2));
        assert!(launch.does(READ, 14, 2));
    }

    #[test]
    fn whole_lines_and_their_parts_are_one_memory() {
        let mut launch = Launch::new();
        // 256 bytes, in two parts twice, by all blocks, and by one of them half a line and then a word.
        let reads = |launch: &mut Launch| {
            let parts = [128..288, 288..384, 128..256, 256..384];
            launch.watch.access(&mut launch.traces, parts.into_iter(), READ).is_ok()
        };
        assert!(reads(&mut launch));
        launch.block(1);
        assert!(reads(&mut launch) && launch.does(READ, 128, 64) && launch.does(READ, 132, 4));
        assert!(launch.does(READ, 250, 12), "across two lines");
        assert!(launch.does(WRITE, 0, 16) && launch.does(WRITE, 384, 2));
        launch.block(2);
        assert!(!launch.does(WRITE, 140, 4) && !launch.does(WRITE, 256, 16) && !launch.does(READ, 384, 1));
        assert!(launch.does(WRITE, 386, 2) && launch.does(READ, 386, 2) && launch.does(READ, 16, 16));
    }

    #[test]
    fn blocks_that_read_different_bytes_do_not_own_each_others() {
        let mut launch = Launch::new();
        assert!(launch.does(READ, 0, 4));
        launch.block(1);
        assert!(launch.does(READ, 4, 4) && launch.does(WRITE, 4, 4));
        assert!(!launch.does(WRITE, 0, 4));
    }

    #[test]
    fn atomics_race_with_plain_accesses_only() {
        let mut launch = Launch::new();
        assert!(launch.does(ATOMIC, 0, 4));
        launch.block(1);
        assert!(launch.does(ATOMIC, 0, 4) && launch.does(ATOMIC, 0, 4));
        launch.block(2);
        assert!(!launch.does(READ, 0, 4) && !launch.does(WRITE, 0, 4));
    }

    /// What block 0 wrote, block 1 may read once it has seen the counter that block 0 raised afterwards.
    #[test]
    fn a_release_and_an_acquire_order_blocks() {
        let run = |write_fence: bool, read_fence: bool, order: Order| {
            let mut launch = Launch::new();
            assert!(launch.does(WRITE, 16, 16));
            if write_fence {
                launch.watch.fence();
            }
            launch.watch.synchronise(0, order, true, true);
            assert!(launch.does(ATOMIC, 0, 4));
            launch.block(1);
            launch.watch.synchronise(0, order, true, true);
            assert!(launch.does(ATOMIC, 0, 4));
            if read_fence {
                launch.watch.fence();
            }
            launch.does(READ, 16, 16)
        };
        assert!(run(true, true, Order::Relaxed));
        assert!(run(false, false, Order::AcquireRelease));
        assert!(run(true, false, Order::Acquire) && run(false, true, Order::Release));
        assert!(!run(false, true, Order::Relaxed), "written without a fence");
        assert!(!run(true, false, Order::Relaxed), "read without a fence");
        for order in [Order::Weak, Order::OfBlock] {
            assert!(!run(true, true, order), "nothing that the other block could see");
        }
    }

    #[test]
    fn what_is_written_after_the_release_is_not_ordered() {
        let mut launch = Launch::new();
        assert!(launch.does(WRITE, 16, 4));
        launch.watch.synchronise(0, Order::Release, false, true);
        assert!(launch.does(WRITE, 20, 4));
        launch.block(1);
        launch.watch.synchronise(0, Order::Acquire, true, false);
        assert!(launch.does(READ, 16, 4) && !launch.does(READ, 20, 4));
    }
}
