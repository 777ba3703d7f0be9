//! Rows of bf16 values that need not lie one directly after another, such as the queries within a query-key-value row.

use cudarc::driver::{CudaView, CudaViewMut, DevicePtr};

use super::device::CudaDevice;
use super::error::{CudaError, require, require_size, require_supported};
use super::floats::Floats;

/// Rows on the device that are read.
#[derive(Debug)]
pub struct Rows<'a> {
    /// Begins with the first row.
    pub values: CudaView<'a, u16>,
    /// Elements from the start of a row to that of the next.
    pub stride: usize,
}

/// Rows on the device that are written. What lies between them is left alone.
#[derive(Debug)]
pub struct RowsMut<'a> {
    /// Begins with the first row.
    pub values: CudaViewMut<'a, u16>,
    /// Elements from the start of a row to that of the next.
    pub stride: usize,
}

/// How errors name an argument that has rows.
pub(super) struct RowNames {
    pub(super) length: &'static str,
    pub(super) stride: &'static str,
    pub(super) address: &'static str,
}

macro_rules! row_names {
    ($name:literal) => {
        $crate::cuda::rows::RowNames {
            length: concat!("length of ", $name),
            stride: concat!("stride of ", $name),
            address: concat!("the address of ", $name, " modulo 16"),
        }
    };
}
pub(super) use row_names;

/// Elements that one access of a kernel moves, which decides what it needs of addresses and strides.
pub(super) fn vector(width: usize) -> usize {
    if width.is_multiple_of(8) { 8 } else { 1 }
}

/// Threads for a block that works through a row: two accesses each, while there are so many threads.
pub(super) fn threads(width: usize) -> usize {
    (width / vector(width)).div_ceil(2).next_power_of_two().clamp(32, 1024)
}

/// The macros of kernels that work through rows.
pub(super) fn row_macros(width: usize) -> Vec<(&'static str, usize)> {
    vec![("WIDTH", width), ("VECTOR", vector(width))]
}

/// Requires that rows have a width that the kernels support.
pub(super) fn require_width(what: &'static str, width: usize) -> Result<(), CudaError> {
    require_supported(what, width, (1..=1 << 20).contains(&width), "1 to 1048576")
}

/// Requires a number of rows that fits a grid.
pub(super) fn require_rows(rows: usize) -> Result<(), CudaError> {
    require("rows", rows, i32::try_from(rows).is_ok(), || "less than 2^31".to_owned())
}

/// Requires that a buffer holds rows of `width` elements, each `stride` after the one before.
pub(super) fn require_strided(
    what: &'static str,
    length: usize,
    (rows, width): (usize, usize),
    stride: usize,
) -> Result<(), CudaError> {
    let needed = rows.checked_sub(1).map_or(Some(0), |others| others.checked_mul(stride)?.checked_add(width));
    require(what, length, needed.is_some_and(|needed| needed <= length), || {
        format!("at least {rows} rows of {width}, each {stride} elements after the one before")
    })
}

/// Requires that rows of `width` logits are there, in a number that fits a grid.
pub(super) fn require_logits(length: usize, (rows, width): (usize, usize), stride: usize) -> Result<(), CudaError> {
    require_rows(rows)?;
    require("stride of logits", stride, stride >= width, || format!("at least {width}"))?;
    require_strided("length of logits", length, (rows, width), stride)
}

impl CudaDevice {
    /// Requires that a weight or bias has a number for every element of a row, where a kernel can access them.
    pub(super) fn check_row_weight(
        &self,
        (length, address): (&'static str, &'static str),
        weight: &Floats<'_>,
        width: usize,
    ) -> Result<(), CudaError> {
        require_size(length, weight.len(), width)?;
        if vector(width) > 1 {
            require_size(address, weight.misalignment(self), 0)?;
        }
        Ok(())
    }

    /// Requires that `rows` rows are there, each of `parts` runs of `width` elements, where a kernel can access them.
    pub(super) fn check_rows(
        &self,
        names: &RowNames,
        values: &impl DevicePtr<u16>,
        stride: usize,
        (rows, width): (usize, usize),
        parts: usize,
    ) -> Result<(), CudaError> {
        let vector = vector(width);
        let width = parts * width;
        require(names.stride, stride, stride >= width && stride.is_multiple_of(vector), || match vector {
            1 => format!("at least {width}"),
            _ => format!("at least {width}, and a multiple of 8 for 16-byte accesses"),
        })?;
        require_strided(names.length, values.len(), (rows, width), stride)?;
        if vector > 1 {
            require_size(names.address, self.misalignment(values), 0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_warps_that_fit_the_device() {
        for (width, expected) in [(1, 32), (111, 64), (500, 256), (512, 32), (2048, 128), (4096, 256), (1 << 20, 1024)]
        {
            assert_eq!(threads(width), expected, "{width}");
        }
    }
}
