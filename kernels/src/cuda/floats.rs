//! Numbers that a kernel takes in either of two formats.

use cudarc::driver::{CudaView, CudaViewMut, DevicePtr, LaunchArgs, PushKernelArg};

use super::device::CudaDevice;

/// Floating-point numbers on the device, in the format that they have: views of numbers of 16 bits or of 32.
#[derive(Debug)]
pub enum FloatViews<Narrow, Wide> {
    /// 16-bit, as bits.
    Bf16(Narrow),
    /// 32-bit.
    F32(Wide),
}

/// Numbers that a kernel reads, in the format that they happen to have.
pub type Floats<'a> = FloatViews<CudaView<'a, u16>, CudaView<'a, f32>>;

/// Numbers that a kernel writes, in the format that they shall have.
pub type FloatsMut<'a> = FloatViews<CudaViewMut<'a, u16>, CudaViewMut<'a, f32>>;

impl<Narrow: DevicePtr<u16>, Wide: DevicePtr<f32>> FloatViews<Narrow, Wide> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bf16(numbers) => numbers.len(),
            Self::F32(numbers) => numbers.len(),
        }
    }

    pub(super) fn is_f32(&self) -> bool {
        matches!(self, Self::F32(_))
    }

    pub(super) fn misalignment(&self, device: &CudaDevice) -> usize {
        match self {
            Self::Bf16(numbers) => device.misalignment(numbers),
            Self::F32(numbers) => device.misalignment(numbers),
        }
    }
}

impl<'a> Floats<'a> {
    /// Makes them the next argument of a launch.
    pub(super) fn push<'b>(&'b self, launch: &mut LaunchArgs<'b>)
    where
        'a: 'b,
    {
        match self {
            Self::Bf16(numbers) => launch.arg(numbers),
            Self::F32(numbers) => launch.arg(numbers),
        };
    }
}

impl<'a> FloatsMut<'a> {
    /// Makes them the next argument of a launch.
    pub(super) fn push<'b>(&'b mut self, launch: &mut LaunchArgs<'b>)
    where
        'a: 'b,
    {
        match self {
            Self::Bf16(numbers) => launch.arg(numbers),
            Self::F32(numbers) => launch.arg(numbers),
        };
    }
}
