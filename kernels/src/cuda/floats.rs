//! Numbers that a kernel takes in either of two formats.

use cudarc::driver::{CudaView, CudaViewMut, LaunchArgs, PushKernelArg};

use super::device::CudaDevice;

/// Floating-point numbers on the device, in the format that they happen to have.
#[derive(Debug)]
pub enum Floats<'a> {
    /// 16-bit, as bits.
    Bf16(CudaView<'a, u16>),
    /// 32-bit.
    F32(CudaView<'a, f32>),
}

impl<'a> Floats<'a> {
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

/// Floating-point numbers on the device that a kernel writes, in the format that they shall have.
#[derive(Debug)]
pub enum FloatsMut<'a> {
    /// 16-bit, as bits.
    Bf16(CudaViewMut<'a, u16>),
    /// 32-bit.
    F32(CudaViewMut<'a, f32>),
}

impl<'a> FloatsMut<'a> {
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
