//! Which vector instructions the running processor has.

use std::fmt;

/// An instruction set the running processor has been seen to support.
///
/// Values come from [`Isa::detect`], [`Isa::available`] and [`Isa::scalar`] only, so holding one is proof that its instructions may
/// be executed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Isa(pub(super) Kind);

/// What a processor says of its vector instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuFeatures {
    /// AVX2, and the half-precision conversions that all processors with it have.
    pub avx2: bool,
    /// Fused multiplication and addition.
    pub fma: bool,
    /// The foundation of AVX-512.
    pub avx512f: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The portable code path, which every processor has.
    #[must_use]
    pub const fn scalar() -> Self {
        Self(Kind::Scalar)
    }

    /// The widest instruction set of the running processor.
    #[must_use]
    pub fn detect() -> Self {
        Self::available().last().copied().unwrap_or(Self::scalar())
    }

    /// Every instruction set of the running processor, narrowest first.
    #[must_use]
    pub fn available() -> Vec<Self> {
        // What the processor does not say it has is not among these kinds.
        CpuFeatures::detect().kinds().into_iter().map(Self).collect()
    }

    /// The name, for reports: `scalar`, `avx2` or `avx512`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name()
    }
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
        }
    }
}

impl CpuFeatures {
    /// Those of the running processor.
    #[must_use]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            Self {
                avx2: is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c"),
                fma: is_x86_feature_detected!("fma"),
                avx512f: is_x86_feature_detected!("avx512f"),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Self::default()
    }

    /// The name of the instruction set that is used on a processor with these, which may be another than the running one.
    #[must_use]
    pub fn chosen(self) -> &'static str {
        self.kinds().last().map_or(Isa::scalar().name(), |kind| kind.name())
    }

    /// Narrowest first.
    fn kinds(self) -> Vec<Kind> {
        #[allow(unused_mut)]
        let mut kinds = vec![Kind::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            if self.avx2 && self.fma {
                kinds.push(Kind::Avx2);
            }
            if self.avx512f {
                kinds.push(Kind::Avx512);
            }
        }
        kinds
    }
}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{CpuFeatures, Isa};

    #[test]
    fn the_running_processor_is_chosen_for_as_a_declared_one() {
        assert_eq!(CpuFeatures::detect().chosen(), Isa::detect().name());
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_widest_that_is_there_is_chosen() {
        let table = [
            ((false, false, false), "scalar"),
            ((true, false, false), "scalar"),
            ((false, true, false), "scalar"),
            ((true, true, false), "avx2"),
            ((true, true, true), "avx512"),
            ((false, false, true), "avx512"),
        ];
        for ((avx2, fma, avx512f), name) in table {
            assert_eq!(CpuFeatures { avx2, fma, avx512f }.chosen(), name);
        }
    }
}
