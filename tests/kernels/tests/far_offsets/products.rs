//! Rows, columns and experts whose number times the depth is large. What comes out is what comes out where it is not.

use kernel_tests::launches::SortedRows;
use kernel_tests::mutation::mutate;
use kernels::cuda::check::Noise;
use kernels::cuda::{
    CudaDevice, FloatsMut, Gemm, GemmArgs, GemmTile, GemmTiles, GroupedGemm, GroupedGemmShape, KernelSource,
};

use super::{FAR, bf16_buffer, far_device};

/// Rows of a batch in experts' weights: number of rows and experts, and the rows and the expert that are there.
fn grouped(device: &CudaDevice, experts: usize, rows: usize, expert: usize, used: [usize; 2]) -> Vec<u16> {
    const COLUMNS: usize = 1032;
    const DEPTH: usize = 2048;
    let shape = GroupedGemmShape { block_rows: 16, experts, columns: COLUMNS, depth: DEPTH, rows_per_input: 1 };
    let kernel = GroupedGemm::compile(device, shape).unwrap();
    let mut noise = Noise::new(81);
    let (weights, inputs) = (noise.normal_bf16(COLUMNS * DEPTH), noise.normal_bf16(2 * DEPTH));
    let (first, second) = inputs.split_at(DEPTH);
    let input = bf16_buffer(device, rows * DEPTH, &[(used[0] * DEPTH, first), (used[1] * DEPTH, second)]);
    let weights = bf16_buffer(device, experts * COLUMNS * DEPTH, &[(expert * COLUMNS * DEPTH, &weights)]);
    let mut sorted_rows = [i32::MAX; 16];
    sorted_rows[..2].copy_from_slice(&used.map(|row| row as i32));
    let sorted = SortedRows {
        sorted_rows: device.upload(&sorted_rows).unwrap(),
        block_expert: device.upload(&[expert as i32]).unwrap(),
        used_rows: device.upload(&[16]).unwrap(),
    };
    let mut output = device.zeros::<u16>(rows * COLUMNS).unwrap();
    device.grouped_gemm(&kernel, sorted.product(&input, &weights, rows, &mut output)).unwrap();
    let row = |row: usize| device.download(&output.slice(row * COLUMNS..(row + 1) * COLUMNS)).unwrap();
    used.into_iter().flat_map(row).collect()
}

#[test]
fn rows_and_weights_of_experts() {
    let device = far_device();
    let near = grouped(&device, 1, 2, 0, [0, 1]);
    // The weights of expert 1017 begin past 2^31 elements, those of expert 2040 past 2^32; so do rows and outputs.
    for (expert, rows) in [(1017, [3, FAR / 1032 + 1]), (2040, [FAR / 1032 * 2 + 5, 1])] {
        assert_eq!(grouped(&device, 2048, 5_000_000, expert, rows), near);
    }
}

/// A product whose block of rows, or of columns, is `first` further on than the launch has it: all blocks of a matrix
/// that large are too many for an interpreter.
fn shifted(line: &str) -> KernelSource {
    const PLACE: &str = "const BlockPlace at = block_place(rows, columns);";
    mutate(&Gemm::SOURCE, PLACE, &format!("BlockPlace at = block_place(rows, columns); {line}"))
}

#[test]
fn rows_of_a_product() {
    const DEPTH: usize = 72;
    const COLUMNS: usize = 40;
    let device = far_device();
    let mut noise = Noise::new(82);
    let (input, weights) = (noise.normal_bf16(5 * DEPTH), noise.normal_bf16(COLUMNS * DEPTH));
    let found = [0, 2 * FAR / COLUMNS + 1].map(|first| {
        let source = shifted(&format!("at.first_row += {first}; rows += {first};"));
        let kernel = Gemm::compile_source(&device, GemmTiles::only(GemmTile::FEW), &source).unwrap();
        let inputs = bf16_buffer(&device, (first + 5) * DEPTH, &[(first * DEPTH, &input)]);
        let weights = device.upload(&weights).unwrap();
        let mut output = device.zeros::<f32>((first + 5) * COLUMNS).unwrap();
        let args = GemmArgs {
            input: inputs.slice(..5 * DEPTH),
            weights: weights.as_view(),
            bias: None,
            rows: 5,
            columns: COLUMNS,
            depth: DEPTH,
            output: FloatsMut::F32(output.slice_mut(..5 * COLUMNS)),
        };
        device.gemm(&kernel, args).unwrap();
        device.download(&output.slice(first * COLUMNS..(first + 5) * COLUMNS)).unwrap()
    });
    assert_eq!(found[0], found[1]);
}
