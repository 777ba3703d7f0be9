//! The matrix product `y = x · Wᵀ`.

use rayon::prelude::*;

use super::simd::{dot_stored, dot_tile, expand, tile_tokens};
use super::{ElementType, Isa, Workers};

/// Rows of `W` per tile: enough independent sums to hide the latency of a multiply-add.
pub(super) const TILE_ROWS: usize = 4;

/// Rows of `W` that are expanded together and then multiplied with all tokens.
const PANEL_ROWS: usize = 32;

/// Bytes of `x` that one pass over a panel works on; together with the panel it stays in the second-level cache.
const TOKEN_BLOCK_BYTES: usize = 128 * 1024;

/// The fewest tokens per pass over a panel, however long a token is.
const TOKEN_BLOCK_MIN: usize = 24;

/// The most tasks for each thread in a product with one token.
const TASKS_FOR_ONE_TOKEN: usize = 32;

/// The fewest weights, times tokens, that a task multiplies: a few microseconds.
const TASK_ELEMENTS: usize = 16 * 1024;

/// Rows of `W` that lie one after another.
#[derive(Clone, Copy)]
pub(super) enum Rows<'a> {
    /// In single precision.
    Floats(&'a [f32]),
    /// As elements of a type.
    Stored(ElementType, &'a [u8]),
}

impl Rows<'_> {
    /// The rows that there are, of `k` elements each.
    pub(super) fn count(self, k: usize) -> usize {
        match self {
            Self::Floats(all) => all.len() / k,
            Self::Stored(element, all) => all.len() / row_bytes(element, k),
        }
    }

    /// The same in pieces of at most `count` rows.
    pub(super) fn pieces(self, k: usize, count: usize) -> impl Iterator<Item = Self> {
        let all = self.count(k);
        (0..all).step_by(count).map(move |first| self.part(k, first, count.min(all - first)))
    }

    /// Those from `first` on.
    pub(super) fn part(self, k: usize, first: usize, count: usize) -> Self {
        match self {
            Self::Floats(all) => Self::Floats(&all[first * k..(first + count) * k]),
            Self::Stored(element, all) => {
                let bytes = row_bytes(element, k);
                Self::Stored(element, &all[first * bytes..(first + count) * bytes])
            }
        }
    }
}

fn row_bytes(element: ElementType, k: usize) -> usize {
    element.bytes(k).expect("rows are whole blocks")
}

/// `y = x · Wᵀ`, with `x` of `[tokens, k]`, `w` of `[n, k]` and `y` of `[tokens, n]`.
///
/// Parallel over the rows of `w`. Each weight is read from memory once.
///
/// # Panics
///
/// When `k` is zero or the lengths do not fit one another.
pub fn matmul(workers: &Workers, x: &[f32], w: &[f32], k: usize, y: &mut [f32]) {
    assert!(k > 0 && w.len().is_multiple_of(k));
    product(workers, x, k, &[Rows::Floats(w)], y);
}

/// As [`matmul`], with the rows of `w` in parts that follow one another.
pub(super) fn product(workers: &Workers, x: &[f32], k: usize, w: &[Rows<'_>], y: &mut [f32]) {
    assert!(k > 0 && x.len().is_multiple_of(k), "{} elements are not rows of {k}", x.len());
    let (tokens, n) = (x.len() / k, w.iter().map(|rows| rows.count(k)).sum::<usize>());
    assert_eq!(y.len(), tokens * n, "output of another shape");
    if y.is_empty() {
        return;
    }
    let isa = workers.isa();
    let rows_per_task = rows_per_task(n, k, tokens, workers.threads());
    let rows: Vec<Rows<'_>> = w.iter().flat_map(|part| part.pieces(k, rows_per_task)).collect();

    let columns = columns_of(&rows, k, y.chunks_exact_mut(n));
    workers.run(|| {
        rows.into_par_iter().zip(columns).for_each(|(rows, mut out)| {
            products(isa, (k, |t| &x[t * k..(t + 1) * k]), rows, &mut out);
        });
    });
}

/// The rows of a task: few enough that no thread waits long for another, and enough to be worth a hand-over.
fn rows_per_task(n: usize, k: usize, tokens: usize, threads: usize) -> usize {
    // With one token, a product is so short that the wait for its last task would count.
    let tasks = if tokens == 1 { threads * TASKS_FOR_ONE_TOKEN } else { threads * 4 };
    n.div_ceil(tasks).max(TASK_ELEMENTS.div_ceil(k * tokens)).next_multiple_of(TILE_ROWS)
}

/// For each of `pieces` its columns of every row of an output.
pub(super) fn columns_of<'y>(
    pieces: &[Rows<'_>],
    k: usize,
    y: impl ExactSizeIterator<Item = &'y mut [f32]>,
) -> Vec<Vec<&'y mut [f32]>> {
    let mut columns: Vec<Vec<&mut [f32]>> = Vec::new();
    columns.resize_with(pieces.len(), || Vec::with_capacity(y.len()));
    for mut row in y {
        for (piece, columns) in pieces.iter().zip(&mut columns) {
            let (own, others) = row.split_at_mut(piece.count(k));
            columns.push(own);
            row = others;
        }
    }
    columns
}

/// The products of vectors of `k` elements, given by a function of their number, with `rows`; `out` has one slice for each.
pub(super) fn products<'x>(
    isa: Isa,
    (k, x): (usize, impl Fn(usize) -> &'x [f32]),
    rows: Rows<'_>,
    out: &mut [&mut [f32]],
) {
    match (rows, out) {
        (Rows::Stored(element, bytes), [out]) => dot_vector(isa, x(0), (element, bytes), out),
        (rows, out) => dot_panels(isa, (k, x), rows, out),
    }
}

/// The tokens of `k` elements that one pass over the weights works on.
fn token_block(k: usize) -> usize {
    (TOKEN_BLOCK_BYTES / (k * size_of::<f32>())).max(TOKEN_BLOCK_MIN)
}

/// The products of one vector with stored rows, which are expanded in registers.
fn dot_vector(isa: Isa, x: &[f32], (element, bytes): (ElementType, &[u8]), out: &mut [f32]) {
    let row_bytes = row_bytes(element, x.len());
    let (strips, rest) = out.as_chunks_mut::<TILE_ROWS>();
    let (whole, rest_bytes) = bytes.split_at(strips.len() * TILE_ROWS * row_bytes);
    for (out, strip) in strips.iter_mut().zip(whole.chunks_exact(TILE_ROWS * row_bytes)) {
        let row = |r: usize| &strip[r * row_bytes..(r + 1) * row_bytes];
        *out = dot_stored(isa, x, element, std::array::from_fn::<_, TILE_ROWS, _>(row));
    }
    for (out, row) in rest.iter_mut().zip(rest_bytes.chunks_exact(row_bytes)) {
        [*out] = dot_stored(isa, x, element, [row]);
    }
}

/// [`products`] of which the rows are expanded in panels, each once for all vectors.
fn dot_panels<'x>(isa: Isa, (k, x): (usize, impl Fn(usize) -> &'x [f32]), rows: Rows<'_>, out: &mut [&mut [f32]]) {
    let token_block = token_block(k);
    let count = rows.count(k);
    let mut expanded = Vec::new();
    for first in (0..count).step_by(PANEL_ROWS) {
        let panel_rows = PANEL_ROWS.min(count - first);
        let panel = match rows.part(k, first, panel_rows) {
            Rows::Floats(panel) => panel,
            Rows::Stored(element, bytes) => {
                expanded.resize(panel_rows * k, 0.0);
                expand(isa, element, bytes, &mut expanded);
                &expanded
            }
        };
        for (block, out) in out.chunks_mut(token_block).enumerate() {
            dot_block(
                isa,
                (out.len(), |t| x(block * token_block + t)),
                (panel_rows, |r| &panel[r * k..(r + 1) * k]),
                |t, r, value| out[t][first + r] = value,
            );
        }
    }
}

/// All products of the vectors `x` with the vectors `w`, each side given as a count and a function from index to vector.
pub(super) fn dot_block<'a, 'b>(
    isa: Isa,
    (tokens, x): (usize, impl Fn(usize) -> &'a [f32]),
    (rows, w): (usize, impl Fn(usize) -> &'b [f32]),
    mut emit: impl FnMut(usize, usize, f32),
) {
    let mut row = 0;
    while row < rows {
        if rows - row >= TILE_ROWS {
            row_strip::<TILE_ROWS>(isa, (tokens, &x), (row, &w), &mut emit);
            row += TILE_ROWS;
        } else {
            row_strip::<1>(isa, (tokens, &x), (row, &w), &mut emit);
            row += 1;
        }
    }
}

/// All products with the `R` vectors of `w` from `row` on.
fn row_strip<'a, 'b, const R: usize>(
    isa: Isa,
    (tokens, x): (usize, &impl Fn(usize) -> &'a [f32]),
    (row, w): (usize, &impl Fn(usize) -> &'b [f32]),
    emit: &mut impl FnMut(usize, usize, f32),
) {
    let widest = tile_tokens(isa);
    let mut token = 0;
    while token < tokens {
        let at = (token, row);
        let wide = widest.min(tokens - token);
        match wide {
            6 => tile::<6, R>(isa, at, x, w, emit),
            5 => tile::<5, R>(isa, at, x, w, emit),
            4 => tile::<4, R>(isa, at, x, w, emit),
            3 => tile::<3, R>(isa, at, x, w, emit),
            2 => tile::<2, R>(isa, at, x, w, emit),
            1 => tile::<1, R>(isa, at, x, w, emit),
            _ => unreachable!("no instruction set has tiles of {wide} tokens"),
        }
        token += wide;
    }
}

fn tile<'a, 'b, const T: usize, const R: usize>(
    isa: Isa,
    (token, row): (usize, usize),
    x: &impl Fn(usize) -> &'a [f32],
    w: &impl Fn(usize) -> &'b [f32],
    emit: &mut impl FnMut(usize, usize, f32),
) {
    let products = dot_tile::<T, R>(isa, std::array::from_fn(|t| x(token + t)), std::array::from_fn(|r| w(row + r)));
    for (t, products) in products.iter().enumerate() {
        for (r, &product) in products.iter().enumerate() {
            emit(token + t, row + r, product);
        }
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // These results are exact.
mod tests {
    use super::super::testing::{Random, assert_close, workers_of_every_kind};
    use super::matmul;

    #[test]
    fn matches_a_float64_product_for_every_shape_and_instruction_set() {
        let mut random = Random::announced(0x6d61_746d);
        for workers in workers_of_every_kind() {
            for (tokens, n, k) in [
                (1, 1, 1),
                (1, 5, 7),
                (2, 4, 16),
                (3, 9, 17),
                (5, 8, 64),
                (6, 3, 33),
                (7, 33, 40),
                (13, 12, 100),
                (31, 70, 8),
                (64, 37, 576),
                (300, 9, 130),
            ] {
                let x = random.floats(tokens * k);
                let w = random.floats(n * k);
                let mut y = vec![f32::NAN; tokens * n];
                matmul(&workers, &x, &w, k, &mut y);
                let want: Vec<f64> = (0..tokens * n)
                    .map(|i| {
                        let (t, r) = (i / n, i % n);
                        (0..k).map(|j| f64::from(x[t * k + j]) * f64::from(w[r * k + j])).sum()
                    })
                    .collect();
                let case = format!("{:?} [{tokens}, {k}] x [{n}, {k}]", workers.isa());
                assert_close(&y, &want, 2e-6 * (k as f64).sqrt() * 4.0, &case);
            }
        }
    }

    #[test]
    fn a_token_gets_the_same_bits_alone_and_in_a_batch() {
        let mut random = Random::announced(0x6269_7473);
        let (tokens, n, k) = (29, 23, 90);
        for workers in workers_of_every_kind() {
            let x = random.floats(tokens * k);
            let w = random.floats(n * k);
            let mut whole = vec![0.0; tokens * n];
            matmul(&workers, &x, &w, k, &mut whole);
            for t in 0..tokens {
                let mut alone = vec![0.0; n];
                matmul(&workers, &x[t * k..(t + 1) * k], &w, k, &mut alone);
                assert_eq!(alone, whole[t * n..(t + 1) * n], "{:?}, token {t}", workers.isa());
            }
        }
    }

    #[test]
    fn no_tokens_and_no_rows_are_nothing_to_do() {
        for workers in workers_of_every_kind() {
            matmul(&workers, &[], &[1.0, 2.0], 2, &mut []);
            matmul(&workers, &[1.0, 2.0], &[], 2, &mut []);
        }
    }
}
