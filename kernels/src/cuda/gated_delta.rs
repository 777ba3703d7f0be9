//! Linear attention by the gated delta rule: one token per request, and runs of tokens.

use cudarc::driver::{CudaSlice, CudaView, CudaViewMut, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, require, require_size, require_supported};
use super::kernel::{Grid, Kernel, KernelCode, KernelShape, start};
use super::nvrtc::KernelSource;
use super::rows::{Rows, RowsMut, require_rows, row_names};

/// The sizes that the kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatedDeltaShape {
    /// Heads of queries and keys.
    pub key_heads: usize,
    /// Heads of values, states and results: a multiple of the key heads. Neighbouring ones share a key head.
    pub value_heads: usize,
    /// Elements of a query and a key: 64 or 128.
    pub key_dim: usize,
    /// Elements of a value: a multiple of 32 up to 256.
    pub value_dim: usize,
    /// Whether queries and keys are brought to length one first.
    pub normalise: bool,
}

/// The driver's limit on the second and third dimension of a grid.
const MAX_GRID_YZ: usize = 65_535;
/// Tokens of a chunk.
pub(super) const CHUNK: usize = 64;
const DECODE_THREADS: usize = 128;
const PREPARE_THREADS: usize = 128;
const SCAN_THREADS: usize = 128;
/// Rows of a state that a block takes.
const STATE_ROWS: usize = 32;

/// Places in [`KernelCode::FUNCTIONS`].
const DECODE: usize = 0;
const PREPARE: usize = 1;
const SCAN: usize = 2;

impl GatedDeltaShape {
    /// Says what is wrong with a shape that the kernels do not support.
    pub fn check(&self) -> Result<(), CudaError> {
        let Self { key_heads, value_heads, key_dim, value_dim, .. } = *self;
        require_supported("key_dim", key_dim, matches!(key_dim, 64 | 128), "64 and 128")?;
        let is_value = value_dim.is_multiple_of(32) && (32..=256).contains(&value_dim);
        require_supported("value_dim", value_dim, is_value, "multiples of 32 from 32 to 256")?;
        require_supported("key_heads", key_heads, (1..=MAX_GRID_YZ).contains(&key_heads), "1 to 65535")?;
        let are_shared = value_heads > 0 && value_heads.is_multiple_of(key_heads);
        require_supported("value_heads", value_heads, are_shared, "a positive multiple of key_heads")?;
        require_supported("value_heads", value_heads, value_heads <= MAX_GRID_YZ, "up to 65535")
    }

    /// Single-precision numbers of the states of one request.
    #[must_use]
    pub fn state_length(&self) -> usize {
        self.value_heads * self.value_dim * self.key_dim
    }

    /// The size of the kernel's `Prepared`.
    fn prepared_bytes(&self) -> usize {
        CHUNK * (self.key_dim + self.value_dim + CHUNK) * size_of::<u16>() + (2 * CHUNK + 4) * size_of::<f32>()
    }

    /// The size of the kernel's `PrepareShared`.
    fn prepare_shared_bytes(&self) -> usize {
        let keys = CHUNK * self.key_dim * size_of::<u16>();
        keys + CHUNK * (PREPARE_THREADS + CHUNK + 4 + 4) * size_of::<f32>()
    }

    /// The size of the kernel's `ScanShared`.
    fn scan_shared_bytes(&self) -> usize {
        let rows_of_keys = 3 * CHUNK + STATE_ROWS;
        (rows_of_keys * self.key_dim + CHUNK * CHUNK + 3 * CHUNK * STATE_ROWS) * size_of::<u16>()
    }

    /// Chunks that runs of `tokens` tokens of `requests` requests have at most.
    fn most_chunks(requests: usize, tokens: usize) -> usize {
        tokens / CHUNK + requests
    }
}

impl KernelCode for GatedDeltaShape {
    const SOURCE: KernelSource = KernelSource::embedded("gated_delta.cu", include_str!("../../cu/gated_delta.cu"));
    const FUNCTIONS: &'static [&'static str] = &["gated_delta_decode", "gated_delta_prepare", "gated_delta_scan"];
}

impl KernelShape for GatedDeltaShape {
    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        self.check()?;
        Ok(vec![
            ("KEY_HEADS", self.key_heads),
            ("VALUE_HEADS", self.value_heads),
            ("KEY_DIM", self.key_dim),
            ("VALUE_DIM", self.value_dim),
            ("NORMALISE", usize::from(self.normalise)),
            ("PREPARED_BYTES", self.prepared_bytes()),
            ("PREPARE_SHARED_BYTES", self.prepare_shared_bytes()),
            ("SCAN_SHARED_BYTES", self.scan_shared_bytes()),
        ])
    }

    fn shared_bytes(&self) -> usize {
        self.prepare_shared_bytes().max(self.scan_shared_bytes())
    }
}

/// The kernels, compiled for a shape and loaded on a device.
pub type GatedDelta = Kernel<GatedDeltaShape>;

/// What the tokens bring, on the device. All must be finite numbers.
#[derive(Debug)]
pub struct GatedDeltaInputs<'a> {
    /// `[tokens, key_heads, key_dim]`.
    pub query: Rows<'a>,
    /// `[tokens, key_heads, key_dim]`.
    pub key: Rows<'a>,
    /// `[tokens, value_heads, value_dim]`.
    pub value: Rows<'a>,
    /// `[tokens, value_heads]`: decides with `a_log` and `dt_bias` what is left of a state:
    /// `exp(-exp(a_log) * softplus(a + dt_bias))`.
    pub a: Rows<'a>,
    /// `[tokens, value_heads]`: how much is learnt, before the sigmoid.
    pub b: Rows<'a>,
    /// `[value_heads]`.
    pub a_log: CudaView<'a, f32>,
    /// `[value_heads]`.
    pub dt_bias: CudaView<'a, f32>,
    /// What results are multiplied by, usually one over the square root of `key_dim`.
    pub scale: f32,
}

/// The states of requests, on the device. No two requests of a launch may have the same slot.
#[derive(Debug)]
pub struct GatedDeltaStates<'a> {
    /// `[slots, value_heads, value_dim, key_dim]`.
    pub values: CudaViewMut<'a, f32>,
    /// `[requests]`: the slot of each. One that there is not, such as -1, marks padding: its results are zeros.
    pub slots: CudaView<'a, i32>,
}

/// The runs of a batch, on the device.
#[derive(Debug)]
pub struct GatedDeltaRuns<'a> {
    /// `[requests + 1]`: each request's first token, ascending, and the end of the last one's. Tokens from there on are
    /// padding and get zeros.
    pub starts: CudaView<'a, i32>,
    /// `[requests]`: 0 where the state before the run is zeros, whatever its slot holds; otherwise that of the slot.
    pub continues: CudaView<'a, i32>,
    /// Tokens of all runs, and of padding.
    pub tokens: usize,
    /// No run is longer. Decides the grid, not the result.
    pub longest: usize,
}

/// What the preparation of chunks leaves for the scan.
#[derive(Debug)]
pub struct GatedDeltaWorkspace {
    pub(super) chunks: CudaSlice<u32>,
}

impl GatedDeltaWorkspace {
    /// Room for batches of up to `requests` requests and `tokens` tokens.
    pub fn new(
        device: &CudaDevice,
        shape: &GatedDeltaShape,
        requests: usize,
        tokens: usize,
    ) -> Result<Self, CudaError> {
        let chunks = GatedDeltaShape::most_chunks(requests, tokens) * shape.value_heads;
        Ok(Self { chunks: device.zeros(chunks * shape.prepared_bytes() / size_of::<u32>())? })
    }
}

impl CudaDevice {
    /// Launches one token per request: every state is read and written once. The rows of the inputs and of the output,
    /// `[requests, value_heads, value_dim]`, are the requests'.
    pub fn gated_delta_decode(
        &self,
        kernel: &GatedDelta,
        inputs: &GatedDeltaInputs<'_>,
        states: GatedDeltaStates<'_>,
        mut output: RowsMut<'_>,
    ) -> Result<(), CudaError> {
        let (shape, requests) = (kernel.shape(), states.slots.len());
        let slots = self.check_gated_delta(shape, inputs, &states, &output, requests)?;
        if requests == 0 {
            return Ok(());
        }
        let strides = inputs.strides();
        let output_stride = output.stride as i64;
        let mut values = states.values;
        let mut launch = self.launch_builder(kernel.function(DECODE))?;
        launch.arg(&inputs.query.values).arg(&strides[0]).arg(&inputs.key.values).arg(&strides[1]);
        launch.arg(&inputs.value.values).arg(&strides[2]).arg(&inputs.a.values).arg(&strides[3]);
        launch.arg(&inputs.b.values).arg(&strides[4]).arg(&inputs.a_log).arg(&inputs.dt_bias);
        launch.arg(&mut values).arg(&slots).arg(&states.slots);
        launch.arg(&mut output.values).arg(&output_stride).arg(&inputs.scale);
        let grid = Grid::new([requests, shape.value_heads, shape.value_dim / STATE_ROWS], DECODE_THREADS);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, grid, "launching a step of the gated delta rule") }
    }

    /// Launches runs of tokens, in chunks of 64 that are counted from a run's first token: cut at a multiple of 64, a run
    /// leaves the same bits. The output is `[tokens, value_heads, value_dim]`.
    ///
    /// The contents of `starts` and slots cannot be checked before the launch. Wrong ones make the kernels read what is
    /// not prepared; they write nothing outside the results.
    pub fn gated_delta_prefill(
        &self,
        kernel: &GatedDelta,
        inputs: &GatedDeltaInputs<'_>,
        runs: &GatedDeltaRuns<'_>,
        states: GatedDeltaStates<'_>,
        workspace: &mut GatedDeltaWorkspace,
        mut output: RowsMut<'_>,
    ) -> Result<(), CudaError> {
        let (shape, requests, tokens) = (kernel.shape(), states.slots.len(), runs.tokens);
        require_rows(tokens)?;
        let slots = self.check_gated_delta(shape, inputs, &states, &output, tokens)?;
        require_size("length of starts", runs.starts.len(), requests + 1)?;
        require_size("length of continues", runs.continues.len(), requests)?;
        let chunks = runs.longest.div_ceil(CHUNK);
        require("longest", runs.longest, runs.longest <= tokens && chunks <= MAX_GRID_YZ, || {
            format!("at most {tokens} tokens, and 4194240")
        })?;
        let needed = GatedDeltaShape::most_chunks(requests, tokens)
            .saturating_mul(shape.value_heads * shape.prepared_bytes() / size_of::<u32>());
        let room = workspace.chunks.len();
        require("length of the workspace", room, room >= needed, || format!("at least {needed}"))?;
        if tokens == 0 {
            return Ok(());
        }
        let strides = inputs.strides();
        let output_stride = output.stride as i64;
        let (request_count, token_count) = (requests as i32, tokens as i32);
        if requests > 0 && chunks > 0 {
            let mut launch = self.launch_builder(kernel.function(PREPARE))?;
            launch.arg(&inputs.query.values).arg(&strides[0]).arg(&inputs.key.values).arg(&strides[1]);
            launch.arg(&inputs.value.values).arg(&strides[2]).arg(&inputs.a.values).arg(&strides[3]);
            launch.arg(&inputs.b.values).arg(&strides[4]).arg(&inputs.a_log).arg(&inputs.dt_bias);
            launch.arg(&slots).arg(&states.slots).arg(&runs.starts).arg(&token_count);
            launch.arg(&mut workspace.chunks).arg(&inputs.scale);
            let mut grid = Grid::new([requests, chunks, shape.value_heads], PREPARE_THREADS);
            grid.shared_bytes = shape.prepare_shared_bytes();
            // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
            unsafe { start(&mut launch, grid, "launching the preparation of the gated delta rule") }?;
        }
        let mut values = states.values;
        let mut launch = self.launch_builder(kernel.function(SCAN))?;
        launch.arg(&inputs.query.values).arg(&strides[0]).arg(&inputs.key.values).arg(&strides[1]);
        launch.arg(&workspace.chunks).arg(&mut values).arg(&slots).arg(&states.slots).arg(&runs.continues);
        launch.arg(&runs.starts).arg(&request_count).arg(&token_count);
        launch.arg(&mut output.values).arg(&output_stride);
        let mut grid = Grid::new([requests + 1, shape.value_heads, shape.value_dim / STATE_ROWS], SCAN_THREADS);
        grid.shared_bytes = shape.scan_shared_bytes();
        // SAFETY: as above; the launch before has prepared all chunks.
        unsafe { start(&mut launch, grid, "launching the scan of the gated delta rule") }
    }

    /// Checks what both kinds of launches rely on; the number of slots, as kernels take it.
    fn check_gated_delta(
        &self,
        shape: &GatedDeltaShape,
        inputs: &GatedDeltaInputs<'_>,
        states: &GatedDeltaStates<'_>,
        output: &RowsMut<'_>,
        rows: usize,
    ) -> Result<i32, CudaError> {
        require_rows(states.slots.len())?;
        let (keys, values) = (shape.key_heads * shape.key_dim, shape.value_heads * shape.value_dim);
        for (names, of, width) in [
            (row_names!("query"), &inputs.query, keys),
            (row_names!("key"), &inputs.key, keys),
            (row_names!("value"), &inputs.value, values),
            (row_names!("a"), &inputs.a, shape.value_heads),
            (row_names!("b"), &inputs.b, shape.value_heads),
        ] {
            self.check_rows(&names, &of.values, of.stride, (rows, width), 1)?;
        }
        self.check_rows(&row_names!("output"), &output.values, output.stride, (rows, values), 1)?;
        require_size("length of a_log", inputs.a_log.len(), shape.value_heads)?;
        require_size("length of dt_bias", inputs.dt_bias.len(), shape.value_heads)?;
        let (length, state) = (states.values.len(), shape.state_length());
        let slots = i32::try_from(length / state).ok().filter(|_| length.is_multiple_of(state));
        require("length of the states", length, slots.is_some(), || format!("less than 2^31 states of {state}"))?;
        require_size("the address of the states modulo 16", self.misalignment(&states.values), 0)?;
        Ok(slots.unwrap_or(0))
    }
}

impl GatedDeltaInputs<'_> {
    /// Those of queries, keys, values, `a` and `b`, as kernels take them.
    fn strides(&self) -> [i64; 5] {
        [&self.query, &self.key, &self.value, &self.a, &self.b].map(|rows| rows.stride as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: GatedDeltaShape =
        GatedDeltaShape { key_heads: 16, value_heads: 32, key_dim: 128, value_dim: 128, normalise: true };

    #[test]
    fn unsupported_shapes_say_what_is_supported() {
        GOOD.check().unwrap();
        let bad = [
            (GatedDeltaShape { key_dim: 96, ..GOOD }, "key_dim is 96; supported: 64 and 128"),
            (GatedDeltaShape { value_dim: 48, ..GOOD }, "value_dim is 48; supported: multiples of 32 from 32 to 256"),
            (GatedDeltaShape { key_heads: 0, ..GOOD }, "key_heads is 0; supported: 1 to 65535"),
            (
                GatedDeltaShape { value_heads: 24, ..GOOD },
                "value_heads is 24; supported: a positive multiple of key_heads",
            ),
        ];
        for (shape, message) in bad {
            assert_eq!(shape.check().unwrap_err().to_string(), message);
        }
    }

    /// What a block of the smallest supported devices may have.
    #[test]
    fn shared_memory_fits_the_devices() {
        assert!(GOOD.shared_bytes() <= 99 << 10, "{}", GOOD.shared_bytes());
    }

    /// However tokens are spread over requests, the places that the kernel gives chunks are there and different.
    #[test]
    fn chunks_have_places_of_their_own() {
        for lengths in [vec![64, 1, 63, 65, 0, 128], vec![1; 70], vec![0, 0, 200], vec![63, 63, 63]] {
            let (mut first, mut places) = (0, Vec::new());
            for (request, &length) in lengths.iter().enumerate() {
                places.extend((0..usize::div_ceil(length, CHUNK)).map(|number| first / CHUNK + request + number));
                first += length;
            }
            let most = GatedDeltaShape::most_chunks(lengths.len(), first);
            assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{lengths:?}: {places:?}");
            assert!(places.iter().all(|&place| place < most), "{lengths:?}: {places:?}");
        }
    }
}
