//! Random copies of pages, and what they leave.

use super::guarded::Guarded;
use super::noise::Noise;
use crate::cuda::copy_pages::{CopyPages, CopyPagesArgs};
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;

/// Two pools and pages to copy, among them pages that do not exist.
#[derive(Debug, Clone)]
pub struct PageCopyProblem {
    pages: usize,
    page_length: usize,
    page_stride: usize,
    pairs: Vec<[i32; 2]>,
    /// Keys and values.
    pools: [Vec<u16>; 2],
}

impl PageCopyProblem {
    /// Copies of half the pages of a pool to the others.
    #[must_use]
    pub fn random(pages: usize, page_length: usize, gap: usize, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let mut order: Vec<i32> = (0..pages as i32).collect();
        noise.shuffle(&mut order);
        let mut pairs: Vec<[i32; 2]> = order.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
        let last = order.last().copied().unwrap_or(0);
        pairs.extend([[-1, last], [last, -1], [pages as i32, last], [last, pages as i32], [last, i32::MAX]]);
        let page_stride = page_length + gap;
        let pools = [(); 2].map(|()| noise.normal_bf16(pages * page_stride));
        Self { pages, page_length, page_stride, pairs, pools }
    }

    /// What both pools hold afterwards.
    #[must_use]
    pub fn reference(&self) -> [Vec<u16>; 2] {
        let mut pools = self.pools.clone();
        for pair in &self.pairs {
            let [Ok(from), Ok(to)] = pair.map(usize::try_from) else { continue };
            if from < self.pages && to < self.pages {
                for pool in &mut pools {
                    let start = from * self.page_stride;
                    pool.copy_within(start..start + self.page_length, to * self.page_stride);
                }
            }
        }
        pools
    }

    /// Copies with the kernel: what both pools hold afterwards, and whether the memory around them was left alone.
    pub fn run(&self, device: &CudaDevice, kernel: &CopyPages) -> Result<([Vec<u16>; 2], bool), CudaError> {
        let mut keys = Guarded::with(device, &self.pools[0])?;
        let mut values = Guarded::with(device, &self.pools[1])?;
        let pairs = device.upload(self.pairs.as_flattened())?;
        device.copy_pages(
            kernel,
            CopyPagesArgs {
                keys: keys.view_mut(),
                values: values.view_mut(),
                pages: self.pages,
                page_stride: self.page_stride,
                page_length: self.page_length,
                pairs: pairs.as_view(),
            },
        )?;
        let ((keys, keys_intact), (values, values_intact)) = (keys.read(device)?, values.read(device)?);
        Ok(([keys, values], keys_intact && values_intact))
    }
}
