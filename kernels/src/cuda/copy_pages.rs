//! Copies of pages within the pools of keys and values.

use cudarc::driver::{CudaView, CudaViewMut, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, require, require_size};
use super::kernel::{Grid, KernelCode, SizelessKernel, start};
use super::nvrtc::KernelSource;
use super::rows::require_rows;

const THREADS: usize = 256;
/// Blocks that share the copy of one page at most; a block then moves 16 pieces per thread of a page of one megabyte.
const BLOCKS_PER_PAGE: usize = 16;

/// The arguments of one launch, on the device.
///
/// No page may be copied to twice, nor be both copied to and copied from: the order of the copies is not defined.
#[derive(Debug)]
pub struct CopyPagesArgs<'a> {
    /// The key pool.
    pub keys: CudaViewMut<'a, u16>,
    /// The value pool.
    pub values: CudaViewMut<'a, u16>,
    /// Pages in each pool.
    pub pages: usize,
    /// Elements from a page to the next.
    pub page_stride: usize,
    /// Elements of a page, which lie one after another.
    pub page_length: usize,
    /// `[copies, 2]`: the page to copy and the page that it is copied to. Where there is no such page, as with -1, nothing
    /// is copied.
    pub pairs: CudaView<'a, i32>,
}

/// The kernel's source.
#[derive(Debug)]
pub struct CopyPagesCode;

impl KernelCode for CopyPagesCode {
    const SOURCE: KernelSource = KernelSource::embedded("copy_pages.cu", include_str!("../../cu/copy_pages.cu"));
    const FUNCTIONS: &'static [&'static str] = &["copy_pages"];
}

/// The kernel, compiled and loaded on a device.
pub type CopyPages = SizelessKernel<CopyPagesCode>;

impl CudaDevice {
    /// Launches copies of pages.
    pub fn copy_pages(&self, kernel: &CopyPages, args: CopyPagesArgs<'_>) -> Result<(), CudaError> {
        self.check_page_copies(&args)?;
        let CopyPagesArgs { mut keys, mut values, pages, page_stride, page_length, pairs } = args;
        let copies = pairs.len() / 2;
        if copies == 0 || page_length == 0 {
            return Ok(());
        }
        let (pages, page_stride) = (pages as u32, page_stride as i64);
        let pieces = page_length / 8;
        let page_pieces = pieces as i64;
        let mut launch = self.launch_builder(kernel.function(0))?;
        launch.arg(&mut keys).arg(&mut values).arg(&pages).arg(&page_stride).arg(&page_pieces).arg(&pairs);
        let grid = Grid::new([copies, pieces.div_ceil(THREADS).min(BLOCKS_PER_PAGE), 2], THREADS);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, grid, "launching copies of pages") }
    }

    fn check_page_copies(&self, args: &CopyPagesArgs<'_>) -> Result<(), CudaError> {
        let CopyPagesArgs { keys, values, pages, page_stride, page_length, pairs } = args;
        require_rows(pairs.len() / 2)?;
        require("length of pairs", pairs.len(), pairs.len().is_multiple_of(2), || "an even number".to_owned())?;
        require("pages", *pages, i32::try_from(*pages).is_ok(), || "less than 2^31".to_owned())?;
        for (what, elements) in [("page_stride", *page_stride), ("page_length", *page_length)] {
            require(what, elements, elements.is_multiple_of(8), || "a multiple of 8 elements".to_owned())?;
        }
        require("page_length", *page_length, page_length <= page_stride, || format!("at most {page_stride}"))?;
        let needed =
            pages.checked_sub(1).map_or(Some(0), |others| others.checked_mul(*page_stride)?.checked_add(*page_length));
        for (what, length) in [("length of the key pool", keys.len()), ("length of the value pool", values.len())] {
            require(what, length, needed.is_some_and(|needed| needed <= length), || {
                format!("at least {pages} pages of {page_length}, each {page_stride} after the one before")
            })?;
        }
        for (what, misalignment) in [
            ("the key pool's address modulo 16", self.misalignment(keys)),
            ("the value pool's address modulo 16", self.misalignment(values)),
        ] {
            require_size(what, misalignment, 0)?;
        }
        Ok(())
    }
}
