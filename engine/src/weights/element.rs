//! The number formats of weight files.

use kernels::cpu::dequant;

/// How the elements of a tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of a single-precision number.
    Bf16,
    /// Blocks of 32 signed bytes with a scale.
    Q8_0,
    /// Blocks of 32 four-bit numbers with a scale and a minimum.
    Q4_1,
}

impl ElementType {
    /// The name by which people know it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::Q8_0 => "Q8_0",
            Self::Q4_1 => "Q4_1",
        }
    }

    /// The bytes `elements` consecutive elements take: nothing when they do not fill whole blocks or the count overflows.
    #[must_use]
    pub fn bytes(self, elements: usize) -> Option<usize> {
        let (block, block_bytes) = match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::Q8_0 => (dequant::BLOCK, dequant::Q8_0_BLOCK_BYTES),
            Self::Q4_1 => (dequant::BLOCK, dequant::Q4_1_BLOCK_BYTES),
        };
        if elements.is_multiple_of(block) { (elements / block).checked_mul(block_bytes) } else { None }
    }

    /// Converts `bytes` to single precision.
    pub(super) fn expand(self, bytes: &[u8], out: &mut [f32]) {
        match self {
            Self::F32 => dequant::f32(bytes, out),
            Self::F16 => dequant::f16(bytes, out),
            Self::Bf16 => dequant::bf16(bytes, out),
            Self::Q8_0 => dequant::q8_0(bytes, out),
            Self::Q4_1 => dequant::q4_1(bytes, out),
        }
    }
}
