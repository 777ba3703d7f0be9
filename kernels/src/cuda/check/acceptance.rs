//! When a kernel's result is near enough to the reference.
//!
//! Two bounds must hold. The relative error (Euclidean) may be half again that of a plain computation with the same
//! number format, or a floor for that format. The largest error of one element may be twice that of the plain
//! computation. A fixed tolerance alone would be too wide for short sums and too narrow for long ones.

use std::fmt;

/// The number format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accuracy {
    /// 32-bit floating point.
    F32,
    /// 16-bit floating point with 8 bits of significand.
    Bf16,
    /// As `Bf16`, computed in 32 bits and rounded once, at the end: no further off than that rounding.
    Bf16Once,
    /// As `Bf16`, where the plain computation rounds all that the kernel rounds and nothing else: no further off than those
    /// roundings.
    Bf16Alike,
}

impl Accuracy {
    fn floor(self) -> f64 {
        match self {
            Self::F32 => 1e-6,
            Self::Bf16 => 8e-3,
            Self::Bf16Once | Self::Bf16Alike => 1e-5,
        }
    }
}

/// Errors and their bounds.
#[derive(Debug, Clone, Copy)]
pub struct Comparison {
    /// Euclidean distance to the reference, over the reference's length.
    pub relative: f64,
    /// What that may be.
    pub relative_bound: f64,
    /// Largest distance of one element.
    pub largest: f64,
    /// What that may be.
    pub largest_bound: f64,
}

impl Comparison {
    /// Whether both bounds hold.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.relative <= self.relative_bound && self.largest <= self.largest_bound
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "relative error {:.1e} (at most {:.1e}), largest {:.1e} (at most {:.1e})",
            self.relative, self.relative_bound, self.largest, self.largest_bound
        )
    }
}

/// Compares a result with the reference. `naive` is the same computed plainly in the format of the result.
#[must_use]
pub fn compare(found: &[f64], naive: &[f64], reference: &[f64], accuracy: Accuracy) -> Comparison {
    let (relative, largest) = distance(found, reference);
    let (naive_relative, naive_largest) = distance(naive, reference);
    Comparison {
        relative,
        relative_bound: accuracy.floor().max(1.5 * naive_relative),
        largest,
        largest_bound: 2.0 * naive_largest + 1e-5,
    }
}

/// Relative Euclidean distance and largest distance. A value that is not finite must be the same in both.
fn distance(found: &[f64], reference: &[f64]) -> (f64, f64) {
    if found.len() != reference.len() {
        return (f64::INFINITY, f64::INFINITY);
    }
    let (mut error, mut length, mut largest) = (0.0_f64, 0.0_f64, 0.0_f64);
    for (&found, &reference) in found.iter().zip(reference) {
        if found.to_bits() == reference.to_bits() && !found.is_finite() {
            continue;
        }
        let difference = (found - reference).abs();
        if !difference.is_finite() {
            return (f64::INFINITY, f64::INFINITY);
        }
        error += difference * difference;
        length += reference * reference;
        largest = largest.max(difference);
    }
    let relative = if error == 0.0 { 0.0 } else { (error / length).sqrt() };
    (relative, largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinities_must_agree_and_nan_never_passes() {
        let reference = [1.0, f64::NEG_INFINITY];
        let verdict = |found: &[f64]| compare(found, &reference, &reference, Accuracy::F32).holds();
        assert!(verdict(&[1.0, f64::NEG_INFINITY]));
        assert!(!verdict(&[1.0, 0.0]));
        assert!(!verdict(&[1.0, f64::INFINITY]));
        assert!(!verdict(&[f64::NAN, f64::NEG_INFINITY]));
        assert!(!verdict(&[1.0]));
    }

    #[test]
    fn one_bad_element_among_many_fails_by_the_largest_error() {
        let reference = vec![1.0; 10_000];
        let naive = vec![1.001; 10_000];
        let mut found = naive.clone();
        found[17] = 1.1;
        let comparison = compare(&found, &naive, &reference, Accuracy::Bf16);
        assert!(comparison.relative < comparison.relative_bound);
        assert!(!comparison.holds());
    }

    #[test]
    fn what_is_rounded_once_may_not_be_off_by_a_common_factor() {
        let reference: Vec<f64> = (0..1000).map(|i| 1.0 + f64::from(i) / 1000.0).collect();
        let naive: Vec<f64> = reference.iter().map(|x| (x * 128.0).round() / 128.0).collect();
        let found: Vec<f64> = naive.iter().map(|x| x * 1.004).collect();
        assert!(compare(&found, &naive, &reference, Accuracy::Bf16).relative < 8e-3);
        assert!(!compare(&found, &naive, &reference, Accuracy::Bf16Once).holds());
        assert!(compare(&naive, &naive, &reference, Accuracy::Bf16Once).holds());
    }

    #[test]
    fn zeros_must_be_exact() {
        let zeros = [0.0; 4];
        assert!(compare(&zeros, &zeros, &zeros, Accuracy::Bf16).holds());
        assert!(!compare(&[0.0, 0.0, 1e-3, 0.0], &zeros, &zeros, Accuracy::Bf16).holds());
    }
}
