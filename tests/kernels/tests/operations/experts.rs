//! The operations of a mixture of experts, one after another, as a layer of a model runs them.

use kernel_tests::device;
use kernel_tests::launches::SortedRows;
use kernels::cuda::check::Noise;
use kernels::cuda::{
    CombineExperts, CombineExpertsArgs, CombineExpertsShape, CudaDevice, CudaSlice, Floats, GroupRows, GroupRowsArgs,
    GroupRowsShape, GroupedGemm, GroupedGemmShape, RouteExperts, RouteExpertsArgs, RouteExpertsShape, Rows, RowsMut,
    SiluMul, SiluMulArgs, SiluMulShape,
};

const TOKENS: usize = 21;
/// This token is padding.
const PADDING: usize = 4;
const EXPERTS: usize = 8;
const HIDDEN: usize = 64;
const WIDTH: usize = 48;
const BLOCK_ROWS: usize = 16;

struct Layer {
    x: Vec<u16>,
    logits: Vec<f32>,
    /// `[EXPERTS, 2 * WIDTH, HIDDEN]`: gates, then ups.
    gate_up: Vec<u16>,
    /// `[EXPERTS, HIDDEN, WIDTH]`.
    down: Vec<u16>,
}

fn layer(seed: u64) -> Layer {
    let mut noise = Noise::new(seed);
    let mut x = noise.normal_bf16(TOKENS * HIDDEN);
    x[PADDING * HIDDEN..(PADDING + 1) * HIDDEN].fill(0x7fc0);
    // An eighth, which is exact, keeps sums near one.
    let eighth = |bits: u16| ((f32::from_bits(u32::from(bits) << 16) / 8.0).to_bits() >> 16) as u16;
    let mut small = |count: usize| noise.normal_bf16(count).into_iter().map(eighth).collect();
    let (gate_up, down) = (small(EXPERTS * 2 * WIDTH * HIDDEN), small(EXPERTS * HIDDEN * WIDTH));
    let logits = (0..TOKENS * EXPERTS).map(|_| noise.normal() * 2.0).collect();
    Layer { x, logits, gate_up, down }
}

fn value(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16))
}

fn dot(a: impl IntoIterator<Item = f64>, b: &[u16]) -> f64 {
    a.into_iter().zip(b).map(|(a, &b)| a * value(b)).sum()
}

impl Layer {
    /// In double precision: the weighted sum over the `chosen` likeliest experts.
    fn reference(&self, chosen: usize) -> Vec<f64> {
        let mut output = Vec::new();
        for (token, (x, logits)) in self.x.chunks(HIDDEN).zip(self.logits.chunks(EXPERTS)).enumerate() {
            let mut sum = vec![0.0; HIDDEN];
            let mut order: Vec<usize> = (0..EXPERTS).collect();
            order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
            order.truncate(if token == PADDING { 0 } else { chosen });
            let total: f64 = order.iter().map(|&expert| f64::from(logits[expert]).exp()).sum();
            for expert in order {
                let weight = f64::from(logits[expert]).exp() / total;
                let gate_up = &self.gate_up[expert * 2 * WIDTH * HIDDEN..];
                let product = |row: usize| dot(x.iter().map(|&x| value(x)), &gate_up[row * HIDDEN..][..HIDDEN]);
                let inner: Vec<f64> = (0..WIDTH)
                    .map(|i| {
                        let gate = product(i);
                        gate / (1.0 + (-gate).exp()) * product(WIDTH + i)
                    })
                    .collect();
                for (i, sum) in sum.iter_mut().enumerate() {
                    let down = &self.down[(expert * HIDDEN + i) * WIDTH..][..WIDTH];
                    *sum += weight * dot(inner.iter().copied(), down);
                }
            }
            output.extend(sum);
        }
        output
    }

    fn run(&self, device: &CudaDevice, chosen: usize) -> Vec<u16> {
        let rows = TOKENS * chosen;
        let positions: Vec<i32> = (0..TOKENS).map(|token| if token == PADDING { -1 } else { token as i32 }).collect();
        let (x, logits, positions) =
            (device.upload(&self.x).unwrap(), device.upload(&self.logits).unwrap(), device.upload(&positions).unwrap());
        let (gate_up, down) = (device.upload(&self.gate_up).unwrap(), device.upload(&self.down).unwrap());

        let shape = RouteExpertsShape { experts: EXPERTS, chosen, renormalise: true };
        let route = RouteExperts::compile(device, shape).unwrap();
        let mut experts: CudaSlice<i32> = device.zeros(rows).unwrap();
        let mut weights: CudaSlice<f32> = device.zeros(rows).unwrap();
        let args = RouteExpertsArgs {
            logits: Floats::F32(logits.as_view()),
            stride: EXPERTS,
            positions: positions.as_view(),
            experts: experts.as_view_mut(),
            weights: weights.as_view_mut(),
        };
        device.route_experts(&route, args).unwrap();

        let shape = GroupRowsShape { experts: EXPERTS, block_rows: BLOCK_ROWS };
        let group = GroupRows::compile(device, shape).unwrap();
        let blocks = shape.most_blocks(rows);
        let mut sorted = SortedRows {
            sorted_rows: device.zeros(blocks * BLOCK_ROWS).unwrap(),
            block_expert: device.zeros(blocks).unwrap(),
            used_rows: device.zeros(1).unwrap(),
        };
        let args = GroupRowsArgs {
            expert_of_row: experts.as_view(),
            sorted_rows: sorted.sorted_rows.as_view_mut(),
            block_expert: sorted.block_expert.as_view_mut(),
            used_rows: sorted.used_rows.as_view_mut(),
        };
        device.group_rows(&group, args).unwrap();

        let product = |input: &CudaSlice<u16>, weights: &CudaSlice<u16>, columns, depth, rows_per_input| {
            let shape = GroupedGemmShape { block_rows: BLOCK_ROWS, experts: EXPERTS, columns, depth, rows_per_input };
            let kernel = GroupedGemm::compile(device, shape).unwrap();
            let mut output: CudaSlice<u16> = device.zeros(rows * columns).unwrap();
            device.grouped_gemm(&kernel, sorted.product(input, weights, rows, &mut output)).unwrap();
            output
        };
        let both = product(&x, &gate_up, 2 * WIDTH, HIDDEN, chosen);

        let silu_mul = SiluMul::compile(device, SiluMulShape { width: WIDTH }).unwrap();
        let mut inner: CudaSlice<u16> = device.zeros(rows * WIDTH).unwrap();
        let args = SiluMulArgs {
            gate_up: Rows { values: both.as_view(), stride: 2 * WIDTH },
            rows,
            output: RowsMut { values: inner.as_view_mut(), stride: WIDTH },
        };
        device.silu_mul(&silu_mul, args).unwrap();
        let given = product(&inner, &down, HIDDEN, WIDTH, 1);

        let combine = CombineExperts::compile(device, CombineExpertsShape { width: HIDDEN, chosen }).unwrap();
        let mut output: CudaSlice<u16> = device.zeros(TOKENS * HIDDEN).unwrap();
        let args = CombineExpertsArgs {
            rows: Rows { values: given.as_view(), stride: HIDDEN },
            weights: weights.as_view(),
            tokens: TOKENS,
            output: RowsMut { values: output.as_view_mut(), stride: HIDDEN },
        };
        device.combine_experts(&combine, args).unwrap();
        device.download(&output).unwrap()
    }
}

/// With one expert, some, and all of them, which is the dense mixture.
#[test]
fn a_layer_of_experts_matches_float64_and_padding_stays_zero() {
    let device = device();
    for (chosen, seed) in [(1, 61), (2, 62), (EXPERTS, 63)] {
        let layer = layer(seed);
        let (found, reference) = (layer.run(&device, chosen), layer.reference(chosen));
        assert!(found[PADDING * HIDDEN..(PADDING + 1) * HIDDEN].iter().all(|&bits| bits == 0), "padding");
        let (mut error, mut length) = (0.0, 0.0);
        for (found, reference) in found.iter().zip(&reference) {
            error += (value(*found) - reference).powi(2);
            length += reference.powi(2);
        }
        let relative = f64::sqrt(error / length);
        println!("{chosen} of {EXPERTS}, seed {seed}: relative error {relative:.1e}");
        // The hidden rows, what each expert gives and the sum are rounded to bf16, a relative error of 1.7e-3 each.
        assert!(relative < 5e-3, "{chosen} of {EXPERTS}: {relative:.1e}");
    }
}
