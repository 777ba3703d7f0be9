//! What is done to each element of a row alike.

use super::Workers;

/// Adds `bias` to each row of `x`, in place; `x` is `[rows, bias]`. Parallel over rows.
///
/// # Panics
///
/// When `x` does not consist of such rows.
pub fn add_bias(workers: &Workers, x: &mut [f32], bias: &[f32]) {
    workers.for_each_row(x, bias.len(), |_, row| {
        for (x, bias) in row.iter_mut().zip(bias) {
            *x += bias;
        }
    });
}

/// Brings each element of `x` into `-limit..=limit`; what is no number stays none.
///
/// # Panics
///
/// When `limit` is negative or no number.
pub fn clip(x: &mut [f32], limit: f32) {
    for x in x {
        *x = x.clamp(-limit, limit);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::workers_of_every_kind;
    use super::{add_bias, clip};

    #[test]
    fn every_row_gets_the_bias_and_no_rows_are_nothing_to_do() {
        for workers in workers_of_every_kind() {
            let mut x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
            add_bias(&workers, &mut x, &[0.5, -1.0]);
            assert_eq!(x.map(f32::to_bits), [1.5, 1.0, 3.5, 3.0, 5.5, 5.0].map(f32::to_bits));
            add_bias(&workers, &mut [], &[0.5, -1.0]);
        }
    }

    #[test]
    fn only_what_is_beyond_the_limit_changes() {
        let mut x = [-3.0, -2.0, 0.5, 2.0, 2.5, f32::INFINITY];
        clip(&mut x, 2.0);
        assert_eq!(x.map(f32::to_bits), [-2.0, -2.0, 0.5, 2.0, 2.0, 2.0_f32].map(f32::to_bits));
        let mut nothing = [f32::NAN];
        clip(&mut nothing, 2.0);
        assert!(nothing[0].is_nan());
    }
}
