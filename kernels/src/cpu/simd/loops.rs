//! The loops, as a macro that writes them for one vector type.

/// Gives `$call` the bytes and the elements of a block of each type, and the function that expands one. The elements of a type
/// without blocks go through sixteen at a time.
macro_rules! by_element {
    ($element:expr, $call:ident) => {
        match $element {
            ElementType::F32 => $call!(64, 16, floats),
            ElementType::F16 => $call!(32, 16, halves),
            ElementType::Bf16 => $call!(32, 16, upper_halves),
            ElementType::Q4_0 => $call!(18, 32, q4_0),
            ElementType::Q4_1 => $call!(20, 32, q4_1),
            ElementType::Q5_0 => $call!(22, 32, q5_0),
            ElementType::Q5_1 => $call!(24, 32, q5_1),
            ElementType::Q8_0 => $call!(34, 32, q8_0),
            ElementType::Q4K => $call!(144, 256, q4_k),
            ElementType::Q5K => $call!(176, 256, q5_k),
            ElementType::Q6K => $call!(210, 256, q6_k),
        }
    };
}

/// Writes the function for blocks of a type for which there is no vector code: the compiler makes vector code of the function of
/// `dequant` that writes an array, and the vectors are read from there.
///
/// `load` must be in scope, and what widens a half-precision number, `half`.
macro_rules! block_through_array {
    ($(#[$feature:meta])?, $vector:ty, $name:ident, $bytes:literal, $elements:literal) => {
        $(#[$feature])?
        #[inline]
        fn $name(block: &[u8; $bytes], mut emit: impl FnMut(usize, $vector)) {
            let mut values = [0.0; $elements];
            dequant::$name(|bytes| half(bytes), block, &mut values);
            for (at, values) in values.as_chunks::<LANES>().0.iter().enumerate() {
                // SAFETY: it holds exactly one vector.
                emit(at, unsafe { load(values.as_ptr()) });
            }
        }
    };
}

/// Writes the loops for one vector type. Inside, `LANES`, `zero`, `load`, `store`, `splat`, `multiply_add`, `sum` and `sums` must be
/// in scope, and for each type of element the function that hands out the vectors of one block, in order.
macro_rules! inner_loops {
    ($(#[$feature:meta])?, $vector:ty, $fused:expr) => {
        $(#[$feature])?
        pub(super) fn dot_tile<const T: usize, const R: usize>(
            x: [&[f32]; T],
            w: [&[f32]; R],
        ) -> [[f32; R]; T] {
            let len = w[0].len();
            assert!(x.iter().chain(&w).all(|v| v.len() == len), "vectors of unequal length");
            let mut totals = [[zero(); R]; T];
            let mut rows: [$vector; R] = [zero(); R];
            let whole = len - len % LANES;
            let mut at = 0;
            while at < whole {
                for r in 0..R {
                    // SAFETY: `at + LANES <= whole <= len`, the length of every vector.
                    rows[r] = unsafe { load(w[r].as_ptr().add(at)) };
                }
                for t in 0..T {
                    // SAFETY: as above.
                    let token = unsafe { load(x[t].as_ptr().add(at)) };
                    for r in 0..R {
                        totals[t][r] = multiply_add(token, rows[r], totals[t][r]);
                    }
                }
                at += LANES;
            }
            if whole < len {
                for t in 0..T {
                    let token = load_padded(&x[t][whole..]);
                    for r in 0..R {
                        totals[t][r] = multiply_add(token, load_padded(&w[r][whole..]), totals[t][r]);
                    }
                }
            }
            let mut out = [[0.0; R]; T];
            for t in 0..T {
                out[t] = sums(totals[t]);
            }
            out
        }

        /// The last elements of a vector, followed by zeros.
        $(#[$feature])?
        #[inline]
        fn load_padded(rest: &[f32]) -> $vector {
            let mut lanes = [0.0; LANES];
            lanes[..rest.len()].copy_from_slice(rest);
            // SAFETY: `lanes` holds exactly one vector.
            unsafe { load(lanes.as_ptr()) }
        }

        $(#[$feature])?
        pub(super) fn dot_stored<const R: usize>(x: &[f32], element: ElementType, w: [&[u8]; R]) -> [f32; R] {
            macro_rules! call {
                ($bytes:literal, $elements:literal, $expand:ident) => {
                    dot_blocks::<$bytes, $elements, R>(
                        x,
                        w,
                        |block, x, mut total| {
                            $expand(block, |at, values| {
                                // SAFETY: the part holds exactly one vector.
                                let x = unsafe { load(x.as_chunks::<LANES>().0[at].as_ptr()) };
                                total = multiply_add(x, values, total);
                            });
                            total
                        },
                        |block, out| $expand(block, |at, values| put(values, out, at)),
                    )
                };
            }
            by_element!(element, call)
        }

        /// The products with vectors whose blocks of `N` elements have `BYTES` bytes; `add` adds that of a block, `expand` writes
        /// its elements.
        $(#[$feature])?
        #[inline]
        fn dot_blocks<const BYTES: usize, const N: usize, const R: usize>(
            x: &[f32],
            w: [&[u8]; R],
            add: impl Fn(&[u8; BYTES], &[f32; N], $vector) -> $vector,
            expand: impl Fn(&[u8; BYTES], &mut [f32; N]),
        ) -> [f32; R] {
            let (x, x_rest) = x.as_chunks::<N>();
            let w = w.map(|w| w.as_chunks::<BYTES>());
            let whole = w.map(|(w, _)| &w[..x.len()]);
            // What is read next: the rows that follow these, or the rest of these where they are long.
            let distance = match R * BYTES * x.len() {
                rows @ ..=8192 => rows,
                _ => 1024,
            };
            let mut totals = [zero(); R];
            for (block, x) in x.iter().enumerate() {
                for r in 0..R {
                    // SAFETY: `block` is below the number of blocks of `x`, to which the slices were cut.
                    let block = unsafe { whole[r].get_unchecked(block) };
                    super::prefetch(block, distance);
                    totals[r] = add(block, x, totals[r]);
                }
            }
            if !x_rest.is_empty() {
                let mut values = [0.0; N];
                for r in 0..R {
                    let mut bytes = [0; BYTES];
                    bytes[..w[r].1.len()].copy_from_slice(w[r].1);
                    expand(&bytes, &mut values);
                    for (x, values) in x_rest.chunks(LANES).zip(values.chunks(LANES)) {
                        totals[r] = multiply_add(load_padded(x), load_padded(values), totals[r]);
                    }
                }
            }
            sums(totals)
        }

        /// Writes vector `at` of `out`.
        $(#[$feature])?
        #[inline]
        fn put<const N: usize>(values: $vector, out: &mut [f32; N], at: usize) {
            // SAFETY: the part holds exactly one vector.
            unsafe { store(out.as_chunks_mut::<LANES>().0[at].as_mut_ptr(), values) };
        }

        $(#[$feature])?
        pub(super) fn expand(element: ElementType, bytes: &[u8], out: &mut [f32]) {
            macro_rules! call {
                ($bytes:literal, $elements:literal, $expand:ident) => {
                    expand_blocks::<$bytes, $elements>(bytes, out, |block, out| {
                        $expand(block, |at, values| put(values, out, at))
                    })
                };
            }
            by_element!(element, call);
        }

        $(#[$feature])?
        #[inline]
        fn expand_blocks<const BYTES: usize, const N: usize>(
            bytes: &[u8],
            out: &mut [f32],
            expand_block: impl Fn(&[u8; BYTES], &mut [f32; N]),
        ) {
            let (blocks, rest) = bytes.as_chunks::<BYTES>();
            let (out, out_rest) = out.as_chunks_mut::<N>();
            for (block, out) in blocks.iter().zip(out) {
                expand_block(block, out);
            }
            if !out_rest.is_empty() {
                let (mut bytes, mut values) = ([0; BYTES], [0.0; N]);
                bytes[..rest.len()].copy_from_slice(rest);
                expand_block(&bytes, &mut values);
                out_rest.copy_from_slice(&values[..out_rest.len()]);
            }
        }

        $(#[$feature])?
        pub(super) fn weighted_sums<'a, const T: usize>(
            weights: [&[f32]; T],
            row: impl Fn(usize) -> &'a [f32],
            out: [&mut [f32]; T],
        ) {
            /// Vectors of a row that are added before the next row is.
            const WIDTH: usize = 4;
            let (rows, len) = (weights[0].len(), out[0].len());
            assert!(weights.iter().all(|weights| weights.len() == rows), "weights of unequal number");
            assert!(out.iter().all(|out| out.len() == len), "sums of unequal length");
            let mut first = 0;
            while first + WIDTH * LANES <= len {
                let mut totals = [[zero(); WIDTH]; T];
                for r in 0..rows {
                    let row = row(r);
                    assert_eq!(row.len(), len, "a row of another length");
                    for v in 0..WIDTH {
                        // SAFETY: `first + WIDTH * LANES <= len`, the length of the row.
                        let values = unsafe { load(row.as_ptr().add(first + v * LANES)) };
                        for t in 0..T {
                            totals[t][v] = multiply_add(splat(weights[t][r]), values, totals[t][v]);
                        }
                    }
                }
                for t in 0..T {
                    for v in 0..WIDTH {
                        // SAFETY: `first + WIDTH * LANES <= len`, the length of each of `out`.
                        unsafe { store(out[t].as_mut_ptr().add(first + v * LANES), totals[t][v]) };
                    }
                }
                first += WIDTH * LANES;
            }
            while first < len {
                let width = LANES.min(len - first);
                let mut totals = [zero(); T];
                for r in 0..rows {
                    let row = row(r);
                    assert_eq!(row.len(), len, "a row of another length");
                    let values = load_padded(&row[first..first + width]);
                    for t in 0..T {
                        totals[t] = multiply_add(splat(weights[t][r]), values, totals[t]);
                    }
                }
                for t in 0..T {
                    let mut lanes = [0.0; LANES];
                    put(totals[t], &mut lanes, 0);
                    out[t][first..first + width].copy_from_slice(&lanes[..width]);
                }
                first += width;
            }
        }

        $(#[$feature])?
        pub(super) fn max(x: &[f32]) -> f32 {
            let mut lanes = [f32::NEG_INFINITY; LANES];
            let larger = |a: f32, b: f32| if b > a { b } else { a };
            let (whole, rest) = x.as_chunks::<LANES>();
            for x in whole {
                for lane in 0..LANES {
                    lanes[lane] = larger(lanes[lane], x[lane]);
                }
            }
            lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, larger)
        }

        $(#[$feature])?
        pub(super) fn exp_shifted(x: &mut [f32], shift: f32) -> f32 {
            let mut lanes = [0.0; LANES];
            let (whole, rest) = x.as_chunks_mut::<LANES>();
            for x in whole {
                for lane in 0..LANES {
                    x[lane] = exp(x[lane] - shift);
                    lanes[lane] += x[lane];
                }
            }
            for (x, lane) in rest.iter_mut().zip(&mut lanes) {
                *x = exp(*x - shift);
                *lane += *x;
            }
            // SAFETY: `lanes` holds exactly one vector.
            sum(unsafe { load(lanes.as_ptr()) })
        }

        $(#[$feature])?
        pub(super) fn silu_mul(gate: &[f32], up: &[f32], y: &mut [f32]) {
            assert!(gate.len() == y.len() && up.len() == y.len(), "vectors of unequal length");
            for ((y, &gate), &up) in y.iter_mut().zip(gate).zip(up) {
                *y = gate / (1.0 + exp(-gate)) * up;
            }
        }

        /// The power of *e*, without branches, so that a loop over it becomes vector code.
        ///
        /// `x` is a whole number `n` of ln 2 and a rest, whose power is a polynomial (about that of Cephes' `expf`); ln 2 comes in two
        /// parts, of which the first has so few bits that `n` times it is exact. The factor `2ⁿ` comes in two parts too, since it
        /// may lie outside the numbers there are while the result does not.
        $(#[$feature])?
        #[inline]
        fn exp(x: f32) -> f32 {
            // Beyond these the result is zero or infinity.
            const LOWEST: f32 = -104.0;
            const HIGHEST: f32 = 89.0;
            // Adding it leaves no bits for a fraction.
            const ROUNDER: f32 = 12_582_912.0;
            let fused = |a: f32, b: f32, c: f32| if $fused { a.mul_add(b, c) } else { a * b + c };
            let power_of_two = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
            let x = if x < LOWEST { LOWEST } else { x };
            let x = if x > HIGHEST { HIGHEST } else { x };
            let shifted = fused(x, std::f32::consts::LOG2_E, ROUNDER);
            let n = shifted - ROUNDER;
            let rest = fused(n, -355.0 / 512.0, x);
            let rest = fused(n, 2.121_944_4e-4, rest);
            let mut sum = 1.987_569_1e-4;
            for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_6e-1, 0.5] {
                sum = fused(sum, rest, coefficient);
            }
            let power = fused(sum, rest * rest, rest) + 1.0;
            let n = shifted.to_bits() as i32 - ROUNDER.to_bits() as i32;
            // What is no number has no `n` either; it stays what it is whatever the factor.
            let n = n.clamp(-151, 129);
            let half = n >> 1;
            power * power_of_two(half) * power_of_two(n - half)
        }
    };
}
