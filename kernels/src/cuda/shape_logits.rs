//! What is done to logits before a token is chosen.

use cudarc::driver::{CudaView, CudaViewMut, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, require, require_size};
use super::kernel::{Grid, KernelCode, SizelessKernel, start};
use super::nvrtc::KernelSource;
use super::rows::require_logits;

const THREADS: usize = 256;

/// Rows of logits that are changed in place.
#[derive(Debug)]
pub struct Logits<'a> {
    /// `[rows, stride]`, of which the first `vocabulary` logits of every row are those of tokens.
    pub values: CudaViewMut<'a, f32>,
    /// Rows.
    pub rows: usize,
    /// Logits from the start of a row to that of the next.
    pub stride: usize,
    /// Tokens that can be chosen.
    pub vocabulary: usize,
}

/// The tokens of every row's history, and what having been there costs them.
///
/// The different tokens of a row are listed one after another. One that the vocabulary does not have is left out; one
/// that is listed twice in a row is a race.
#[derive(Debug)]
pub struct Penalties<'a> {
    /// `[rows + 1]`: where each row's tokens begin, and the end of the last one's.
    pub starts: CudaView<'a, i32>,
    /// The tokens.
    pub tokens: CudaView<'a, i32>,
    /// How often each token is in the output; 0 for one that is in the prompt only.
    pub counts: CudaView<'a, i32>,
    /// `[rows]`: divides positive logits and multiplies negative ones; 1 changes none.
    pub repetition: CudaView<'a, f32>,
    /// `[rows]`: taken from the logits of tokens that are in the output.
    pub presence: CudaView<'a, f32>,
    /// `[rows]`: taken from a logit for each time that its token is in the output.
    pub frequency: CudaView<'a, f32>,
}

/// Which tokens are allowed.
#[derive(Debug)]
pub struct TokenMasks<'a> {
    /// `[masks, words]`: a bit for each token, the lowest first. Tokens without a bit are not allowed.
    pub masks: CudaView<'a, u32>,
    /// Words of a mask.
    pub words: usize,
    /// `[rows]`: the mask of each row. Where there is no such mask, as with -1, all tokens are allowed.
    pub mask_of_row: CudaView<'a, i32>,
}

/// The kernels' source.
#[derive(Debug)]
pub struct ShapeLogitsCode;

impl KernelCode for ShapeLogitsCode {
    const SOURCE: KernelSource = KernelSource::embedded("shape_logits.cu", include_str!("../../cu/shape_logits.cu"));
    const FUNCTIONS: &'static [&'static str] = &["penalise", "forbid"];
}

/// The kernels, compiled and loaded on a device.
pub type ShapeLogits = SizelessKernel<ShapeLogitsCode>;

/// Requires that rows of logits are there.
pub(super) fn check_logits(length: usize, rows: usize, stride: usize, vocabulary: usize) -> Result<(), CudaError> {
    require("vocabulary", vocabulary, (1..=1 << 23).contains(&vocabulary), || "1 to 8388608".to_owned())?;
    require_logits(length, (rows, vocabulary), stride)
}

impl CudaDevice {
    /// Makes tokens that were there before less likely, or more: repetition first, then frequency and presence.
    pub fn penalise(
        &self,
        kernels: &ShapeLogits,
        logits: &mut Logits<'_>,
        penalties: &Penalties<'_>,
    ) -> Result<(), CudaError> {
        let rows = logits.rows;
        check_logits(logits.values.len(), rows, logits.stride, logits.vocabulary)?;
        require_size("length of starts", penalties.starts.len(), rows + 1)?;
        let entries = penalties.tokens.len();
        require("length of tokens", entries, i32::try_from(entries).is_ok(), || "less than 2^31".to_owned())?;
        require_size("length of counts", penalties.counts.len(), entries)?;
        for (what, numbers) in [
            ("length of repetition", &penalties.repetition),
            ("length of presence", &penalties.presence),
            ("length of frequency", &penalties.frequency),
        ] {
            require_size(what, numbers.len(), rows)?;
        }
        if rows == 0 {
            return Ok(());
        }
        let (stride, vocabulary, entries) = (logits.stride as i64, logits.vocabulary as i32, entries as i32);
        let mut launch = self.launch_builder(kernels.function(0))?;
        launch
            .arg(&mut logits.values)
            .arg(&stride)
            .arg(&vocabulary)
            .arg(&penalties.starts)
            .arg(&penalties.tokens)
            .arg(&penalties.counts)
            .arg(&entries)
            .arg(&penalties.repetition)
            .arg(&penalties.presence)
            .arg(&penalties.frequency);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, Grid::new([rows, 1, 1], THREADS), "launching penalties") }
    }

    /// Makes the tokens impossible that a row's mask does not allow.
    pub fn forbid(
        &self,
        kernels: &ShapeLogits,
        logits: &mut Logits<'_>,
        masks: &TokenMasks<'_>,
    ) -> Result<(), CudaError> {
        let (rows, words) = (logits.rows, masks.words);
        check_logits(logits.values.len(), rows, logits.stride, logits.vocabulary)?;
        require_size("length of mask_of_row", masks.mask_of_row.len(), rows)?;
        require("words", words, (1..=1 << 18).contains(&words), || "1 to 262144".to_owned())?;
        let length = masks.masks.len();
        require(
            "length of masks",
            length,
            length.is_multiple_of(words) && i32::try_from(length / words).is_ok(),
            || format!("less than 2^31 masks of {words} words"),
        )?;
        if rows == 0 {
            return Ok(());
        }
        let (stride, vocabulary) = (logits.stride as i64, logits.vocabulary as i32);
        let (mask_count, words) = ((length / words) as i32, words as i32);
        let mut launch = self.launch_builder(kernels.function(1))?;
        launch
            .arg(&mut logits.values)
            .arg(&stride)
            .arg(&vocabulary)
            .arg(&masks.masks)
            .arg(&words)
            .arg(&mask_count)
            .arg(&masks.mask_of_row);
        let grid = Grid::new([rows, logits.vocabulary.div_ceil(THREADS), 1], THREADS);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, grid, "launching token masks") }
    }
}
