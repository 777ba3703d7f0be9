//! Offsets of more than 2^31 elements: numbers of rows, pages, slots and experts whose product with a stride is no 32-bit
//! number, signed or not.
//!
//! Buffers are terabytes, of which the emulated device has the parts that are written. On a GPU these would not fit.

mod logits;
mod pools;
mod products;
mod rows;

use kernel_tests::{Emulator, device};
use kernels::cuda::check::Comparison;
use kernels::cuda::{CudaDevice, CudaSlice};

/// A distance in elements: one is no signed number of 32 bits, and two of them are as one too few in an unsigned one.
const FAR: usize = (1 << 31) + 64;

/// A device with room for it.
fn far_device() -> CudaDevice {
    Emulator::open().set_memory(16 << 40);
    device()
}

fn assert_right(comparisons: &[Comparison], guards_intact: bool) {
    for comparison in comparisons {
        assert!(comparison.holds(), "{comparison}");
    }
    assert!(guards_intact, "wrote outside its results");
}

/// A buffer of zeros with rows of values that begin at some places.
fn bf16_buffer(device: &CudaDevice, length: usize, rows: &[(usize, &[u16])]) -> CudaSlice<u16> {
    let mut buffer = device.zeros(length).unwrap();
    for (start, row) in rows {
        device.overwrite(&mut buffer.slice_mut(*start..start + row.len()), row).unwrap();
    }
    buffer
}

/// The same in single precision.
fn f32_buffer(device: &CudaDevice, length: usize, rows: &[(usize, &[f32])]) -> CudaSlice<f32> {
    let mut buffer = device.zeros(length).unwrap();
    for (start, row) in rows {
        device.overwrite(&mut buffer.slice_mut(*start..start + row.len()), row).unwrap();
    }
    buffer
}
