//! The gated activation of the feed-forward block.

use super::{Workers, simd};

/// `y = silu(gate) · up`, where a row of `gate_up` holds `width` gates followed by `width` ups and `silu(g) = g / (1 + e⁻ᵍ)`.
///
/// `gate_up` is `[rows, 2, width]`, `y` is `[rows, width]`. Parallel over rows.
///
/// # Panics
///
/// When the lengths do not fit one another.
pub fn silu_mul(workers: &Workers, gate_up: &[f32], width: usize, y: &mut [f32]) {
    assert_eq!(gate_up.len(), 2 * y.len(), "output of another shape");
    let isa = workers.isa();
    workers.for_each_row(y, width, |row, y| {
        let (gate, up) = gate_up[row * 2 * width..(row + 1) * 2 * width].split_at(width);
        simd::silu_mul(isa, gate, up, y);
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, assert_close, workers_of_every_kind};
    use super::silu_mul;

    #[test]
    fn matches_float64_and_survives_large_gates() {
        let mut random = Random::announced(0x7369_6c75);
        let (rows, width) = (7, 33);
        for workers in workers_of_every_kind() {
            let mut gate_up = random.floats(rows * 2 * width);
            gate_up[0] = 200.0;
            gate_up[1] = -200.0;
            let mut y = vec![0.0; rows * width];
            silu_mul(&workers, &gate_up, width, &mut y);
            let want: Vec<f64> = gate_up
                .chunks(2 * width)
                .flat_map(|row| {
                    (0..width).map(|i| {
                        let (gate, up) = (f64::from(row[i]), f64::from(row[width + i]));
                        gate / (1.0 + (-gate).exp()) * up
                    })
                })
                .collect();
            assert_close(&y, &want, 1e-6, &format!("{:?}", workers.isa()));
        }
    }
}
