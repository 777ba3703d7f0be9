//! Contexts in a paged pool, with everything that is not part of them made harmful.

use cudarc::driver::CudaSlice;

use super::noise::{BF16_NAN, Noise};
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
use crate::cuda::kv_pool::{KvLayout, KvShape};

/// A page number that no pool has; a kernel that uses it fails.
const NO_PAGE: i32 = 2_147_480_000;
/// A context length that no table has room for; padding rows carry it.
const NO_CONTEXT: i32 = 2_000_000_000;

/// Whether a page holds its tokens or its heads one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolOrder {
    /// `[page, token, head, element]`.
    TokenMajor,
    /// `[page, head, token, element]`.
    HeadMajor,
}

/// The contexts of a batch. Rows past a context and unused pages hold NaN, entries of the block table past a context
/// name pages that do not exist, and pages are in random order.
#[derive(Debug, Clone)]
pub(super) struct PagedContexts {
    shape: KvShape,
    layout: KvLayout,
    /// How many times as far apart rows are on a device.
    stretch: usize,
    keys: Vec<u16>,
    values: Vec<u16>,
    block_table: Vec<i32>,
    table_width: usize,
    slots: Vec<i32>,
    context: Vec<i32>,
}

/// The same on a device.
pub(super) struct UploadedContexts {
    pub(super) layout: KvLayout,
    pub(super) keys: CudaSlice<u16>,
    pub(super) values: CudaSlice<u16>,
    pub(super) block_table: CudaSlice<i32>,
    pub(super) table_width: usize,
    pub(super) slots: CudaSlice<i32>,
    pub(super) context: CudaSlice<i32>,
}

/// The same layout with everything `times` as far apart.
pub(super) fn stretched(layout: KvLayout, times: usize) -> KvLayout {
    KvLayout {
        pages: layout.pages,
        page_stride: layout.page_stride * times,
        token_stride: layout.token_stride * times,
        head_stride: layout.head_stride * times,
    }
}

impl PagedContexts {
    /// One context per entry of `contexts`, which is its length; `None` is padding.
    pub(super) fn random(shape: KvShape, contexts: &[Option<usize>], order: PoolOrder, noise: &mut Noise) -> Self {
        let longest = contexts.iter().flatten().copied().max().unwrap_or(0);
        let pages_of = |context: usize| context.div_ceil(shape.page_size);
        let used: usize = contexts.iter().flatten().map(|&length| pages_of(length)).sum();
        let mut free: Vec<i32> = (0..used as i32 + 3).collect();
        noise.shuffle(&mut free);
        let layout = match order {
            PoolOrder::TokenMajor => KvLayout::token_major(shape, free.len()),
            PoolOrder::HeadMajor => KvLayout::head_major(shape, free.len()),
        };
        let table_width = pages_of(longest) + 2;
        let mut slots: Vec<i32> = (0..contexts.len() as i32 + 2).collect();
        noise.shuffle(&mut slots);
        let mut block_table = vec![NO_PAGE; slots.len() * table_width];
        slots.truncate(contexts.len());
        for (slot, context) in slots.iter_mut().zip(contexts) {
            if let Some(length) = *context {
                let row = *slot as usize * table_width;
                let pages = free.split_off(free.len() - pages_of(length));
                block_table[row..][..pages.len()].copy_from_slice(&pages);
            } else {
                *slot = -1;
            }
        }
        let pool = vec![BF16_NAN; layout.pages * layout.page_stride];
        let context = contexts.iter().map(|length| length.map_or(NO_CONTEXT, |length| length as i32)).collect();
        let mut contexts = Self {
            shape,
            layout,
            stretch: 1,
            keys: pool.clone(),
            values: pool,
            block_table,
            table_width,
            slots,
            context,
        };
        contexts.fill(noise);
        contexts
    }

    /// Gives every token of every context a random key and value.
    fn fill(&mut self, noise: &mut Noise) {
        let head_dim = self.shape.head_dim;
        for request in 0..self.slots.len() {
            for token in 0..self.length(request) {
                for head in 0..self.shape.kv_heads {
                    let start = self.row(request, token, head);
                    self.keys[start..][..head_dim].copy_from_slice(&noise.normal_bf16(head_dim));
                    self.values[start..][..head_dim].copy_from_slice(&noise.normal_bf16(head_dim));
                }
            }
        }
    }

    /// Contexts, padding among them.
    pub(super) fn count(&self) -> usize {
        self.slots.len()
    }

    /// Tokens of a context; none for padding.
    pub(super) fn length(&self, request: usize) -> usize {
        if self.slots[request] < 0 { 0 } else { self.context[request] as usize }
    }

    /// Tokens of the longest context.
    pub(super) fn longest(&self) -> usize {
        (0..self.count()).map(|request| self.length(request)).max().unwrap_or(0)
    }

    /// Where a key or value starts in its pool.
    fn row(&self, request: usize, token: usize, kv_head: usize) -> usize {
        let page_size = self.shape.page_size;
        let entry = self.slots[request] as usize * self.table_width + token / page_size;
        self.block_table[entry] as usize * self.layout.page_stride
            + token % page_size * self.layout.token_stride
            + kv_head * self.layout.head_stride
    }

    /// Keys and values of some tokens of a context.
    pub(super) fn heads(
        &self,
        request: usize,
        kv_head: usize,
        tokens: impl Iterator<Item = usize>,
    ) -> (Vec<&[u16]>, Vec<&[u16]>) {
        let rows = tokens.map(|token| self.row(request, token, kv_head));
        rows.map(|row| (&self.keys[row..][..self.shape.head_dim], &self.values[row..][..self.shape.head_dim])).unzip()
    }

    /// Gives the pages of the tokens before `end` away, and makes what is left of those tokens NaN.
    pub(super) fn forget(&mut self, request: usize, end: usize) {
        for token in 0..end {
            for head in 0..self.shape.kv_heads {
                let start = self.row(request, token, head);
                self.keys[start..][..self.shape.head_dim].fill(BF16_NAN);
                self.values[start..][..self.shape.head_dim].fill(BF16_NAN);
            }
        }
        if end > 0 {
            let row = self.slots[request] as usize * self.table_width;
            self.block_table[row..][..end / self.shape.page_size].fill(NO_PAGE);
        }
    }

    /// Overwrites the keys and values of a context with constants.
    pub(super) fn set(&mut self, request: usize, key: u16, value: u16) {
        for token in 0..self.length(request) {
            for head in 0..self.shape.kv_heads {
                let start = self.row(request, token, head);
                self.keys[start..][..self.shape.head_dim].fill(key);
                self.values[start..][..self.shape.head_dim].fill(value);
            }
        }
    }

    /// Makes a context as long as it was at an earlier time; what came later stays in the pool.
    pub(super) fn shorten(&mut self, request: usize, length: usize) {
        self.context[request] = length as i32;
    }

    /// Keeps only the contexts before `count`. What the others had in the pools stays there.
    pub(super) fn truncate(&mut self, count: usize) {
        self.slots.truncate(count);
        self.context.truncate(count);
    }

    /// Keeps only one context. What the others had in the pools stays there.
    pub(super) fn keep(&mut self, request: usize) {
        self.slots = vec![self.slots[request]];
        self.context = vec![self.context[request]];
    }

    /// Ends every context after its first `pages` pages.
    pub(super) fn keep_pages(&mut self, pages: usize) {
        let end = (pages * self.shape.page_size) as i32;
        self.context.iter_mut().filter(|length| **length != NO_CONTEXT).for_each(|length| *length = end.min(*length));
    }

    /// Begins every context after its first `pages` pages.
    pub(super) fn drop_pages(&mut self, pages: usize) {
        let end = (pages * self.shape.page_size) as i32;
        let shorter = |length: &mut i32| *length = (*length - end).max(0);
        self.context.iter_mut().filter(|length| **length != NO_CONTEXT).for_each(shorter);
        self.block_table =
            self.block_table.chunks_exact(self.table_width).flat_map(|row| row[pages..].to_vec()).collect();
        self.table_width -= pages;
    }

    /// Puts the rows of keys and values `stretch` times as far apart as they are. What is not part of a context is then
    /// zeros.
    pub(super) fn stretch(&mut self, stretch: usize) {
        self.stretch = stretch;
    }

    /// A pool on a device.
    fn upload_pool(&self, device: &CudaDevice, pool: &[u16]) -> Result<CudaSlice<u16>, CudaError> {
        if self.stretch == 1 {
            return device.upload(pool);
        }
        let mut buffer = device.zeros(pool.len() * self.stretch)?;
        let head_dim = self.shape.head_dim;
        for (number, row) in pool.chunks_exact(head_dim).enumerate() {
            if row[0] != BF16_NAN {
                let start = number * head_dim * self.stretch;
                device.overwrite(&mut buffer.slice_mut(start..start + head_dim), row)?;
            }
        }
        Ok(buffer)
    }

    /// Copies everything to a device.
    pub(super) fn upload(&self, device: &CudaDevice) -> Result<UploadedContexts, CudaError> {
        Ok(UploadedContexts {
            layout: stretched(self.layout, self.stretch),
            keys: self.upload_pool(device, &self.keys)?,
            values: self.upload_pool(device, &self.values)?,
            block_table: device.upload(&self.block_table)?,
            table_width: self.table_width,
            slots: device.upload(&self.slots)?,
            context: device.upload(&self.context)?,
        })
    }
}
