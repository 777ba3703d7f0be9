//! From projected queries, keys and values to what attention reads: normalised, clipped, rotated, keys and values in
//! their pages.

use cudarc::driver::{CudaView, CudaViewMut, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, require, require_size, require_supported};
use super::floats::Floats;
use super::kernel::{Grid, Kernel, KernelCode, KernelShape, start};
use super::kv_pool::{KvLayout, KvShape};
use super::nvrtc::KernelSource;
use super::rows::{Rows, RowsMut, require_rows, row_names};

/// What is normalised before the rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadNorm {
    /// Nothing.
    None,
    /// Every query head and every key head on its own; all of a kind share one weight.
    PerHead,
    /// All query heads of a token as one vector, and all key heads as one.
    AllHeads,
}

/// The sizes that the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RopeKvWriteShape {
    /// Elements of a head: multiples of 8 up to 512.
    pub head_dim: usize,
    /// Query heads of the model.
    pub query_heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Tokens in a page, a power of two.
    pub page_size: usize,
    /// What is normalised before the rotation.
    pub norm: HeadNorm,
}

const WARPS: usize = 8;
/// Heads of a token: with 512 elements each, their offsets within a row are far below 2^31.
const MAX_HEADS: usize = 65_535;

impl RopeKvWriteShape {
    /// Says what is wrong with a shape that the kernel does not support.
    pub fn check(&self) -> Result<(), CudaError> {
        require_supported(
            "head_dim",
            self.head_dim,
            (8..=512).contains(&self.head_dim) && self.head_dim.is_multiple_of(8),
            "multiples of 8 from 8 to 512",
        )?;
        require_supported("query_heads", self.query_heads, (1..=MAX_HEADS).contains(&self.query_heads), "1 to 65535")?;
        require_supported("kv_heads", self.kv_heads, self.kv_heads <= MAX_HEADS, "1 to 65535")?;
        self.pool().check()
    }

    /// What a page of the pools holds.
    #[must_use]
    pub fn pool(&self) -> KvShape {
        KvShape { head_dim: self.head_dim, kv_heads: self.kv_heads, page_size: self.page_size }
    }

    /// Elements of a row that holds a token's queries, keys and values.
    #[must_use]
    pub fn row_length(&self) -> usize {
        self.heads() * self.head_dim
    }

    fn heads(&self) -> usize {
        self.query_heads + 2 * self.kv_heads
    }

    fn heads_per_block(&self) -> usize {
        if self.norm == HeadNorm::AllHeads { self.heads() } else { WARPS }
    }
}

impl KernelCode for RopeKvWriteShape {
    const SOURCE: KernelSource = KernelSource::embedded("rope_kv_write.cu", include_str!("../../cu/rope_kv_write.cu"));
    const FUNCTIONS: &'static [&'static str] = &["rope_kv_write_bf16", "rope_kv_write_f32"];
}

impl KernelShape for RopeKvWriteShape {
    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        self.check()?;
        let norm = match self.norm {
            HeadNorm::None => 0,
            HeadNorm::PerHead => 1,
            HeadNorm::AllHeads => 2,
        };
        Ok(vec![
            ("HEAD_DIM", self.head_dim),
            ("QUERY_HEADS", self.query_heads),
            ("KV_HEADS", self.kv_heads),
            ("PAGE_SHIFT", self.page_size.trailing_zeros() as usize),
            ("NORM", norm),
        ])
    }
}

/// Weights of a normalisation of heads.
#[derive(Debug)]
pub struct HeadNormWeights<'a> {
    /// For the queries: `[head_dim]`, or `[query_heads, head_dim]` for [`HeadNorm::AllHeads`].
    pub query: Floats<'a>,
    /// For the keys, in the format of `query`: `[head_dim]`, or `[kv_heads, head_dim]`.
    pub key: Floats<'a>,
    /// Added to the mean of the squares.
    pub epsilon: f32,
}

/// The arguments of one launch, on the device.
///
/// A token whose position is outside `turns`, such as -1, is padding: its query is zeros, and nothing of it is stored.
/// No two tokens may have the same slot.
#[derive(Debug)]
pub struct RopeKvWriteArgs<'a> {
    /// `[tokens, query_heads + 2 * kv_heads, head_dim]`.
    pub qkv: Rows<'a>,
    /// Given where the shape has a normalisation.
    pub norm: Option<HeadNormWeights<'a>>,
    /// Queries, keys and values are brought into `-limit..=limit` before the rotation.
    pub clip: Option<f32>,
    /// `[tokens]`: the place of each token in its sequence.
    pub positions: CudaView<'a, i32>,
    /// `[positions, head_dim]`, as [`rope_turns`] makes it.
    pub turns: CudaView<'a, f32>,
    /// `[tokens]`: the place of each token in the pools, page number times page size plus place in the page. -1, like
    /// any place that the pools do not have, is not stored.
    pub slots: CudaView<'a, i32>,
    /// `[tokens, query_heads, head_dim]`.
    pub query: RowsMut<'a>,
    /// The key pool.
    pub keys: CudaViewMut<'a, u16>,
    /// The value pool.
    pub values: CudaViewMut<'a, u16>,
    /// How both pools are laid out.
    pub layout: KvLayout,
}

/// Cosines and sines for `positions` positions, `[positions, 2 * inverse_frequencies]`: of each position the cosines of
/// its angles, then their sines, multiplied by `amplitude`.
///
/// Angles are computed in double precision and rounded once.
#[must_use]
pub fn rope_turns(inverse_frequencies: &[f64], amplitude: f64, positions: usize) -> Vec<f32> {
    let mut turns = Vec::with_capacity(positions * 2 * inverse_frequencies.len());
    for position in 0..positions {
        let angle = |frequency: &f64| position as f64 * frequency;
        turns.extend(inverse_frequencies.iter().map(|f| (angle(f).cos() * amplitude) as f32));
        turns.extend(inverse_frequencies.iter().map(|f| (angle(f).sin() * amplitude) as f32));
    }
    turns
}

/// The kernel, compiled for a shape and loaded on a device.
pub type RopeKvWrite = Kernel<RopeKvWriteShape>;

impl CudaDevice {
    /// Launches the rotation of a batch's queries and keys, and the write of its keys and values.
    pub fn rope_kv_write(&self, kernel: &RopeKvWrite, args: RopeKvWriteArgs<'_>) -> Result<(), CudaError> {
        let shape = kernel.shape();
        self.check_rope_args(shape, &args)?;
        let tokens = args.positions.len();
        if tokens == 0 {
            return Ok(());
        }
        let RopeKvWriteArgs { qkv, norm, clip, positions, turns, slots, mut query, mut keys, mut values, layout } =
            args;
        let nowhere = 0_u64;
        let is_f32 = norm.as_ref().is_some_and(|norm| norm.query.is_f32());
        let (epsilon, limit) = (norm.as_ref().map_or(0.0, |norm| norm.epsilon), clip.unwrap_or(f32::INFINITY));
        let (qkv_stride, query_stride) = (qkv.stride as i64, query.stride as i64);
        let table_positions = (turns.len() / shape.head_dim) as i32;
        let pool_tokens = (layout.pages * shape.page_size) as i32;
        let strides = layout.strides();
        let mut launch = self.launch_builder(kernel.function(usize::from(is_f32)))?;
        launch.arg(&qkv.values).arg(&qkv_stride);
        match &norm {
            Some(norm) => {
                norm.query.push(&mut launch);
                norm.key.push(&mut launch);
            }
            None => {
                launch.arg(&nowhere).arg(&nowhere);
            }
        }
        launch
            .arg(&epsilon)
            .arg(&limit)
            .arg(&positions)
            .arg(&turns)
            .arg(&table_positions)
            .arg(&mut query.values)
            .arg(&query_stride)
            .arg(&mut keys)
            .arg(&mut values)
            .arg(&slots)
            .arg(&pool_tokens)
            .arg(&strides[0])
            .arg(&strides[1])
            .arg(&strides[2]);
        let grid = Grid::new([tokens, shape.heads().div_ceil(shape.heads_per_block()), 1], WARPS * 32);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, grid, "launching the rotation of queries and keys") }
    }

    fn check_rope_args(&self, shape: &RopeKvWriteShape, args: &RopeKvWriteArgs<'_>) -> Result<(), CudaError> {
        let tokens = args.positions.len();
        require_rows(tokens)?;
        self.check_rows(&row_names!("qkv"), &args.qkv.values, args.qkv.stride, (tokens, shape.row_length()), 1)?;
        let query_length = shape.query_heads * shape.head_dim;
        self.check_rows(&row_names!("query"), &args.query.values, args.query.stride, (tokens, query_length), 1)?;
        require_size("length of slots", args.slots.len(), tokens)?;
        let turns = args.turns.len();
        require(
            "length of turns",
            turns,
            turns.is_multiple_of(shape.head_dim) && i32::try_from(turns / shape.head_dim).is_ok(),
            || format!("less than 2^31 positions of {}", shape.head_dim),
        )?;
        require_size("the address of turns modulo 16", self.misalignment(&args.turns), 0)?;
        self.check_norm_weights(shape, args.norm.as_ref())?;
        if let Some(limit) = args.clip {
            // What the error can show of a limit is whether it is a number.
            require("clip", usize::from(limit.is_nan()), limit >= 0.0, || "a limit of 0 or more".to_owned())?;
        }
        let layout = &args.layout;
        let pool_tokens = layout.pages.checked_mul(shape.page_size);
        require("pages", layout.pages, pool_tokens.is_some_and(|tokens| i32::try_from(tokens).is_ok()), || {
            "less than 2^31 tokens in all".to_owned()
        })?;
        layout.check(self, shape.pool(), &args.keys, &args.values)
    }

    fn check_norm_weights(
        &self,
        shape: &RopeKvWriteShape,
        norm: Option<&HeadNormWeights<'_>>,
    ) -> Result<(), CudaError> {
        let (query, key) = match shape.norm {
            HeadNorm::None => (0, 0),
            HeadNorm::PerHead => (shape.head_dim, shape.head_dim),
            HeadNorm::AllHeads => (shape.query_heads * shape.head_dim, shape.kv_heads * shape.head_dim),
        };
        let Some(norm) = norm else {
            return require_size("length of the query weight", 0, query);
        };
        require_size("length of the query weight", norm.query.len(), query)?;
        require_size("length of the key weight", norm.key.len(), key)?;
        require_size("the address of the query weight modulo 16", norm.query.misalignment(self), 0)?;
        require_size("the address of the key weight modulo 16", norm.key.misalignment(self), 0)?;
        let bits = |weight: &Floats<'_>| if weight.is_f32() { 32 } else { 16 };
        require_size("bits of the key weight", bits(&norm.key), bits(&norm.query))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: RopeKvWriteShape =
        RopeKvWriteShape { head_dim: 128, query_heads: 32, kv_heads: 8, page_size: 16, norm: HeadNorm::PerHead };

    #[test]
    fn unsupported_shapes_say_what_is_supported() {
        GOOD.check().unwrap();
        let bad = [
            (RopeKvWriteShape { head_dim: 84, ..GOOD }, "head_dim is 84; supported: multiples of 8 from 8 to 512"),
            (RopeKvWriteShape { head_dim: 520, ..GOOD }, "head_dim is 520; supported: multiples of 8 from 8 to 512"),
            (RopeKvWriteShape { kv_heads: 0, ..GOOD }, "kv_heads is 0; supported: one head or more"),
            (RopeKvWriteShape { query_heads: 70_000, ..GOOD }, "query_heads is 70000; supported: 1 to 65535"),
            (RopeKvWriteShape { page_size: 24, ..GOOD }, "page_size is 24; supported: powers of two up to 1048576"),
        ];
        for (shape, message) in bad {
            assert_eq!(shape.check().unwrap_err().to_string(), message);
        }
    }

    /// Angles of 0, 1 and 2 times 90 and 0.1 degrees.
    #[test]
    fn turns_are_cosines_and_then_sines_of_each_position() {
        let turns = rope_turns(&[std::f64::consts::FRAC_PI_2, std::f64::consts::PI / 1800.0], 2.0, 3);
        let expected = [
            [2.0, 2.0, 0.0, 0.0],
            [0.0, 2.0 * 0.999_998_48, 2.0, 2.0 * 0.001_745_328_4],
            [-2.0, 2.0 * 0.999_993_9, 0.0, 2.0 * 0.003_490_651_4],
        ];
        for (found, expected) in turns.iter().zip(expected.as_flattened()) {
            assert!((found - expected).abs() < 1e-6, "{turns:?}");
        }
        assert_eq!(turns.len(), 12);
    }

    /// At this position a table in 16 bits, or angles in 32, would be off by a hundredth.
    #[test]
    fn turns_are_right_at_the_end_of_a_long_context() {
        let turns = rope_turns(&[1.0, 0.5], 1.0, 131_072);
        // The cosine and the sine of 131071 and half of that, by arbitrary-precision arithmetic.
        let expected = [-0.817_983_499_39, -0.301_675_737_02, -0.575_241_683_75, 0.953_410_588_20];
        for (found, expected) in turns[131_071 * 4..].iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-7, "{found} {expected}");
        }
    }
}
