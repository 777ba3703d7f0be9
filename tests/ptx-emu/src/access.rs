//! What instructions reach beyond registers, lane by lane.

use crate::block::{Block, Core, Who};
use crate::check::blocks::Touch;
use crate::error::{Checked, FaultKind, RawFault};
use crate::program::Args;
use crate::ty::Space;

/// What an instruction can reach.
pub(crate) struct Cx<'a, 'b> {
    pub(crate) core: &'a mut Core,
    pub(crate) block: &'a mut Block<'b>,
    pub(crate) pc: u32,
}

impl Cx<'_, '_> {
    #[inline]
    pub(crate) fn who(&self, lane: usize) -> Who {
        Who { warp: self.core.id, lane, pc: self.pc }
    }

    /// What the instruction does to global memory, if that is watched.
    #[inline(always)]
    pub(crate) fn touch(&self, args: &Args, writes: bool) -> Option<Touch> {
        let strong = args.order.reaches_blocks();
        self.block.options.block_races.then_some(Touch { writes, strong, pc: self.pc })
    }

    /// Checks an access of `lane` to global memory against those of other blocks.
    #[inline(always)]
    pub(crate) fn watch(
        &mut self,
        args: &Args,
        lane: usize,
        address: u64,
        bytes: usize,
        reads: bool,
        writes: bool,
    ) -> Checked {
        let Some(touch) = self.touch(args, writes) else { return Ok(()) };
        if touch.strong {
            self.block.memory.synchronise(address, args.order, reads, writes);
        }
        let result = self.block.memory.touch(address, bytes, touch);
        result.map_err(|clash| self.block.clash(lane, address, &clash))
    }

    /// Range of `lane`'s local memory.
    pub(crate) fn local_range(&self, lane: usize, offset: u64, bytes: usize) -> Checked<std::ops::Range<usize>> {
        let size = self.block.kernel.local_bytes as usize;
        let start = offset as usize;
        if offset > size as u64 || bytes > size - start {
            let message = format!("local access of {bytes} bytes out of bounds: offset {offset} of {size} bytes");
            return Err(RawFault::at_lane(FaultKind::OutOfBounds, lane, message));
        }
        let start = lane * size + start;
        Ok(start..start + bytes)
    }

    /// What `lane` loads, in whichever memory the address is.
    #[inline(never)]
    pub(crate) fn load<const N: usize>(&mut self, args: &Args, lane: usize, address: u64) -> Checked<[u8; N]> {
        let (space, address) = args.space.resolve(address);
        Self::aligned(lane, address, N, space)?;
        match space {
            Space::Shared => self.block.shared_load(self.who(lane), address),
            Space::Local => {
                let range = self.local_range(lane, address, N)?;
                let mut data = [0; N];
                data.copy_from_slice(&self.core.local[range]);
                Ok(data)
            }
            Space::Global | Space::Const | Space::Generic => {
                self.block.stats.global_load_bytes += N as u64;
                self.watch(args, lane, address, N, true, false)?;
                self.block.global_load(lane, address)
            }
        }
    }

    /// Stores what `lane` stores, in whichever memory the address is.
    #[inline(never)]
    pub(crate) fn store<const N: usize>(&mut self, args: &Args, lane: usize, address: u64, data: [u8; N]) -> Checked {
        let (space, address) = args.space.resolve(address);
        Self::aligned(lane, address, N, space)?;
        match space {
            Space::Shared => self.block.shared_store(self.who(lane), address, data),
            Space::Local => {
                let range = self.local_range(lane, address, N)?;
                self.core.local[range].copy_from_slice(&data);
                Ok(())
            }
            Space::Global | Space::Const | Space::Generic => {
                if self.block.kernel.is_constant(address) {
                    let message = format!("store to constant memory at {address:#x}");
                    return Err(RawFault::at_lane(FaultKind::ReadOnly, lane, message));
                }
                self.block.stats.global_store_bytes += N as u64;
                self.watch(args, lane, address, N, false, true)?;
                self.block.global_store(lane, address, data)
            }
        }
    }

    /// An error unless `address` is a multiple of `bytes`.
    #[inline]
    pub(crate) fn aligned(lane: usize, address: u64, bytes: usize, space: Space) -> Checked {
        if address & (bytes as u64 - 1) == 0 { Ok(()) } else { Err(misaligned(lane, address, bytes, space)) }
    }
}

#[cold]
fn misaligned(lane: usize, address: u64, bytes: usize, space: Space) -> Box<RawFault> {
    let message = format!("misaligned {} access of {bytes} bytes at {address:#x}", space.name());
    RawFault::at_lane(FaultKind::Misaligned, lane, message)
}
