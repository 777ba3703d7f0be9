//! Two parts of the attention of rows, joined: such as that over a prefix which many requests share and that over what
//! follows it.

use cudarc::driver::{CudaView, CudaViewMut, PushKernelArg};

use super::attention_rules::AttentionRules;
use super::device::CudaDevice;
use super::error::{CudaError, require, require_size, require_supported};
use super::kernel::{Grid, Kernel, KernelCode, KernelShape, push_optional, start};
use super::nvrtc::KernelSource;
use super::rows::{Rows, RowsMut, row_names};

/// The sizes that the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeStatesShape {
    /// Elements of a head: a multiple of 8 up to 1024.
    pub head_dim: usize,
    /// Query heads of a row.
    pub query_heads: usize,
    /// Whether every query head has a sink. The parts are without it: it counts once.
    pub sinks: bool,
}

const THREADS: usize = 128;

impl MergeStatesShape {
    /// Says what is wrong with a shape that the kernel does not support.
    pub fn check(&self) -> Result<(), CudaError> {
        let head_dim = self.head_dim;
        require_supported(
            "head_dim",
            head_dim,
            (8..=1024).contains(&head_dim) && head_dim.is_multiple_of(8),
            "multiples of 8 from 8 to 1024",
        )?;
        require_supported("query_heads", self.query_heads, (1..=65_535).contains(&self.query_heads), "1 to 65535")
    }
}

impl KernelCode for MergeStatesShape {
    const SOURCE: KernelSource = KernelSource::embedded("merge_states.cu", include_str!("../../cu/merge_states.cu"));
    const FUNCTIONS: &'static [&'static str] = &["merge_states"];
}

impl KernelShape for MergeStatesShape {
    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        self.check()?;
        let sinks = usize::from(self.sinks);
        Ok(vec![("HEAD_DIM", self.head_dim), ("QUERY_HEADS", self.query_heads), ("SINKS", sinks)])
    }
}

/// One part of the attention of rows, on the device.
#[derive(Debug)]
pub struct AttentionState<'a> {
    /// `[rows, query_heads, head_dim]`: weighted means of the values that the part saw.
    pub output: Rows<'a>,
    /// `[rows, query_heads]`: natural logarithms of the softmax denominators, without sinks. Infinite where the part saw
    /// no key; its output is then not looked at.
    pub lse: CudaView<'a, f32>,
}

/// The arguments of one launch, on the device.
#[derive(Debug)]
pub struct MergeStatesArgs<'a> {
    /// The parts, which saw different keys.
    pub parts: [AttentionState<'a>; 2],
    /// Rows to join.
    pub rows: usize,
    /// `[query_heads]`, if the shape has them: each query head's sink.
    pub sinks: Option<CudaView<'a, f32>>,
    /// `[rows, query_heads, head_dim]`. Zeros where neither part saw a key.
    pub output: RowsMut<'a>,
    /// `[rows, query_heads]`: as of the parts. Minus infinity where neither saw a key.
    pub lse: CudaViewMut<'a, f32>,
}

/// The kernel, compiled for a shape and loaded on a device.
pub type MergeStates = Kernel<MergeStatesShape>;

impl CudaDevice {
    /// Launches the join of two parts of attention.
    pub fn merge_states(&self, kernel: &MergeStates, args: MergeStatesArgs<'_>) -> Result<(), CudaError> {
        let MergeStatesShape { head_dim, query_heads, sinks: has_sinks } = *kernel.shape();
        let MergeStatesArgs { parts: [first, second], rows, sinks, mut output, mut lse } = args;
        let states = rows.saturating_mul(query_heads);
        require("rows * query_heads", states, i32::try_from(states).is_ok(), || "less than 2^31".to_owned())?;
        let size = (rows, query_heads * head_dim);
        self.check_rows(&row_names!("the first part"), &first.output.values, first.output.stride, size, 1)?;
        self.check_rows(&row_names!("the second part"), &second.output.values, second.output.stride, size, 1)?;
        self.check_rows(&row_names!("output"), &output.values, output.stride, size, 1)?;
        for (what, length) in [
            ("length of the first part's lse", first.lse.len()),
            ("length of the second part's lse", second.lse.len()),
            ("length of lse", lse.len()),
        ] {
            require_size(what, length, states)?;
        }
        AttentionRules { sinks: has_sinks, ..AttentionRules::default() }.check_sinks(sinks.as_ref(), query_heads)?;
        if rows == 0 {
            return Ok(());
        }
        let strides = [first.output.stride, second.output.stride, output.stride].map(|stride| stride as i64);
        let row_count = rows as i32;
        let grid = Grid::new([(states * (head_dim / 8)).div_ceil(THREADS), 1, 1], THREADS);
        let mut launch = self.launch_builder(kernel.function(0))?;
        launch.arg(&first.output.values).arg(&strides[0]).arg(&first.lse);
        launch.arg(&second.output.values).arg(&strides[1]).arg(&second.lse);
        launch.arg(&mut output.values).arg(&strides[2]).arg(&mut lse);
        push_optional(&mut launch, sinks.as_ref());
        launch.arg(&row_count);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, grid, "launching the join of parts of attention") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_shapes_say_what_is_supported() {
        let good = MergeStatesShape { head_dim: 128, query_heads: 32, sinks: false };
        good.check().unwrap();
        for (shape, message) in [
            (MergeStatesShape { head_dim: 12, ..good }, "head_dim is 12; supported: multiples of 8 from 8 to 1024"),
            (MergeStatesShape { query_heads: 0, ..good }, "query_heads is 0; supported: 1 to 65535"),
        ] {
            assert_eq!(shape.check().unwrap_err().to_string(), message);
        }
    }
}
