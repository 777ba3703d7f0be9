//! How the pools of keys and values are laid out in device memory.

use cudarc::driver::DevicePtr;

use super::device::CudaDevice;
use super::error::{CudaError, require, require_size, require_supported};

/// What a page of a pool holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvShape {
    /// Elements of a head.
    pub head_dim: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Tokens in a page, a power of two.
    pub page_size: usize,
}

/// How keys and values lie in their pools, in elements. Key and value pool are laid out alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvLayout {
    /// Pages in each pool.
    pub pages: usize,
    /// From a page to the next.
    pub page_stride: usize,
    /// From a token to the next of the same page.
    pub token_stride: usize,
    /// From a head to the next of the same token.
    pub head_stride: usize,
}

impl KvShape {
    /// Says what is wrong with pages and heads that no kernel supports.
    pub(super) fn check(self) -> Result<(), CudaError> {
        require_supported("kv_heads", self.kv_heads, self.kv_heads > 0, "one head or more")?;
        require_supported(
            "page_size",
            self.page_size,
            self.page_size.is_power_of_two() && self.page_size <= 1 << 20,
            "powers of two up to 1048576",
        )
    }
}

/// Says what is wrong with a number of query heads that share `kv_heads`.
pub(super) fn check_query_heads(query_heads: usize, kv_heads: usize) -> Result<(), CudaError> {
    /// The driver's limit on the second and third dimension of a grid.
    const MAX_GRID_YZ: usize = 65_535;
    require_supported(
        "query_heads",
        query_heads,
        query_heads > 0 && query_heads.is_multiple_of(kv_heads),
        "a positive multiple of kv_heads",
    )?;
    require_supported("query_heads", query_heads, query_heads <= MAX_GRID_YZ, "up to 65535")
}

impl KvLayout {
    /// `[page, token, head, element]`: writing a token is one contiguous run.
    #[must_use]
    pub fn token_major(shape: KvShape, pages: usize) -> Self {
        let token_stride = shape.kv_heads * shape.head_dim;
        Self { pages, page_stride: shape.page_size * token_stride, token_stride, head_stride: shape.head_dim }
    }

    /// `[page, head, token, element]`: a head of a page is one contiguous tile.
    #[must_use]
    pub fn head_major(shape: KvShape, pages: usize) -> Self {
        let head_stride = shape.page_size * shape.head_dim;
        Self { pages, page_stride: shape.kv_heads * head_stride, token_stride: shape.head_dim, head_stride }
    }

    /// Elements from a pool's start to the end of its last row; `None` where that is not a number.
    fn extent(&self, shape: KvShape) -> Option<usize> {
        let Some(last_page) = self.pages.checked_sub(1) else {
            return Some(0);
        };
        last_page
            .checked_mul(self.page_stride)?
            .checked_add((shape.page_size - 1).checked_mul(self.token_stride)?)?
            .checked_add((shape.kv_heads - 1).checked_mul(self.head_stride)?)?
            .checked_add(shape.head_dim)
            .filter(|extent| i64::try_from(*extent).is_ok())
    }

    /// The strides, as kernels take them.
    pub(super) fn strides(&self) -> [i64; 3] {
        [self.page_stride, self.token_stride, self.head_stride].map(|stride| stride as i64)
    }

    /// Whether both pools are as long and as aligned as this layout makes kernels believe.
    pub(super) fn check(
        &self,
        device: &CudaDevice,
        shape: KvShape,
        keys: &impl DevicePtr<u16>,
        values: &impl DevicePtr<u16>,
    ) -> Result<(), CudaError> {
        let extent = self.extent(shape);
        for (what, length) in [("length of the key pool", keys.len()), ("length of the value pool", values.len())] {
            require(what, length, extent.is_some_and(|extent| extent <= length), || {
                extent.map_or_else(
                    || "a layout whose offsets fit 63 bits".to_owned(),
                    |extent| format!("at least {extent}"),
                )
            })?;
        }
        for (what, stride) in
            [("page_stride", self.page_stride), ("token_stride", self.token_stride), ("head_stride", self.head_stride)]
        {
            require_aligned(what, stride)?;
        }
        require_size("the key pool's address modulo 16", device.misalignment(keys), 0)?;
        require_size("the value pool's address modulo 16", device.misalignment(values), 0)
    }
}

/// Requires that a stride, in elements of 16 bits, keeps 16-byte accesses aligned.
pub(super) fn require_aligned(what: &'static str, stride: usize) -> Result<(), CudaError> {
    require(what, stride, stride.is_multiple_of(8), || "a multiple of 8 elements, for 16-byte accesses".to_owned())
}

/// Requires that a block table is whole rows of `width` pages.
pub(super) fn check_block_table(length: usize, width: usize) -> Result<(), CudaError> {
    require("table_width", width, i32::try_from(width).is_ok(), || "less than 2^31".to_owned())?;
    require("length of block_table", length, width > 0 && length.is_multiple_of(width), || {
        format!("a multiple of table_width ({width})")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: KvShape = KvShape { head_dim: 128, kv_heads: 8, page_size: 16 };

    #[test]
    fn a_pool_ends_with_the_last_row_whatever_the_layout() {
        for layout in [KvLayout::token_major(SHAPE, 5), KvLayout::head_major(SHAPE, 5)] {
            assert_eq!(layout.extent(SHAPE), Some(5 * 16 * 8 * 128));
        }
        assert_eq!(KvLayout::token_major(SHAPE, 0).extent(SHAPE), Some(0));
        let absurd = KvLayout { page_stride: usize::MAX / 2, ..KvLayout::token_major(SHAPE, 5) };
        assert_eq!(absurd.extent(SHAPE), None);
    }
}
