//! Which vector instructions the running processor has.

use std::fmt;

/// An instruction set the running processor has been seen to support.
///
/// Values come from [`Isa::detect`], [`Isa::available`] and [`Isa::scalar`] only, so holding one is proof that its instructions may
/// be executed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Isa(pub(super) Kind);

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
        #[allow(unused_mut)]
        let mut found = vec![Self::scalar()];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                found.push(Self(Kind::Avx2));
            }
            if is_x86_feature_detected!("avx512f") {
                found.push(Self(Kind::Avx512));
            }
        }
        found
    }

    /// The name, for reports: `scalar`, `avx2` or `avx512`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            Kind::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
        }
    }
}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
