//! Products with quantised weights: against double precision, the same bits as with the expanded matrix, and the blocks of
//! another implementation.

use std::fs;
use std::path::Path;

use kernel_tests::device;
use kernel_tests::product_cases::{self, DENSE_TILES, FORMATS, measured_tiles};
use kernels::cuda::check::{Bias, ProductSize, QuantisedGemmProblem, WeightFormat};
use kernels::cuda::{
    BlockFormat, CudaError, CudaSlice, FloatsMut, Gemm, GemmTile, GemmTiles, QuantisedGemm, QuantisedGemmArgs,
    QuantisedMatrix, Staging, to_bf16,
};

#[test]
fn every_format_in_every_block_and_shape() {
    let device = device();
    for format in FORMATS {
        for tile in DENSE_TILES {
            product_cases::quantised(&device, format, tile);
        }
    }
}

/// So a matrix may be quantised on the device or expanded when it is loaded, and no bit of a result differs.
#[test]
fn a_product_has_the_bits_of_one_with_the_expanded_matrix() {
    let device = device();
    let size = ProductSize { rows: 21, columns: 150, depth: 416 };
    let dense = Gemm::compile(&device, GemmTiles::default()).unwrap();
    for (format, seed) in FORMATS.into_iter().zip(90..) {
        let problem = QuantisedGemmProblem::random(format, size, Bias::Random, seed);
        let expected = problem.dense().run(&device, &dense, WeightFormat::F32).unwrap().output;
        for tile in measured_tiles() {
            let kernel = QuantisedGemm::compile(&device, format, GemmTiles::only(tile)).unwrap();
            let found = problem.run(&device, &kernel, WeightFormat::F32).unwrap().output;
            let same = found.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{format:?}, {tile:?}, seed {seed}");
        }
    }
}

/// The blocks and what they expand to are another implementation's.
#[test]
fn reference_blocks_are_expanded_as_their_own_implementation_does() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../quants");
    let device = device();
    for (format, name) in FORMATS.into_iter().zip(["q8_0", "q4_0", "q4_1"]) {
        let blocks = fs::read(folder.join(format!("{name}.blocks"))).unwrap();
        let numbers = fs::read(folder.join(format!("{name}.f32"))).unwrap();
        let expected: Vec<u16> =
            numbers.as_chunks().0.iter().map(|&bytes| to_bf16(f32::from_le_bytes(bytes))).collect();
        let size = ProductSize { rows: 4, columns: 8, depth: expected.len() / 8 };
        let problem = QuantisedGemmProblem::of_blocks(format, size, &blocks, 95);
        assert!(problem.weights() == expected, "{name}");
        let kernel = QuantisedGemm::compile(&device, format, GemmTiles::default()).unwrap();
        let found = problem.run(&device, &kernel, WeightFormat::F32).unwrap();
        let comparison = problem.compare(&found, WeightFormat::F32);
        assert!(comparison.holds(), "{name}: {comparison}");
    }
}

#[test]
fn a_matrix_and_a_launch_of_another_size_are_refused() {
    let device = device();
    let upload = |format, size, bytes| {
        let mut staging = Staging::new(&device, 40).unwrap();
        QuantisedMatrix::upload(&device, &mut staging, format, size, &vec![0; bytes])
    };
    let error = upload(BlockFormat::Q8_0, (3, 40), 3 * 34).unwrap_err();
    assert_eq!(error.to_string(), "depth is 40; supported: positive multiples of 32");
    for (format, bytes) in [(BlockFormat::Q8_0, 34), (BlockFormat::Q4_0, 18), (BlockFormat::Q4_1, 20)] {
        upload(format, (3, 64), 6 * bytes).unwrap();
        let error = upload(format, (3, 64), 6 * bytes + 1).unwrap_err();
        assert!(matches!(error, CudaError::Size { what: "bytes of weights", .. }), "{error}");
    }

    let weights = upload(BlockFormat::Q4_0, (3, 64), 6 * 18).unwrap();
    let input: CudaSlice<u16> = device.zeros(2 * 64).unwrap();
    let launch = |format, input: &CudaSlice<u16>, output: usize| {
        let kernel = QuantisedGemm::compile(&device, format, GemmTiles::only(GemmTile::NARROW)).unwrap();
        let mut output: CudaSlice<u16> = device.zeros(output).unwrap();
        let output = FloatsMut::Bf16(output.as_view_mut());
        let args = QuantisedGemmArgs { input: input.as_view(), weights: &weights, bias: None, rows: 2, output };
        device.quantised_gemm(&kernel, args)
    };
    launch(BlockFormat::Q4_0, &input, 6).unwrap();
    let short: CudaSlice<u16> = device.zeros(2 * 64 - 8).unwrap();
    for (what, outcome) in [
        ("bytes of a block of weights", launch(BlockFormat::Q4_1, &input, 6)),
        ("length of input", launch(BlockFormat::Q4_0, &short, 6)),
        ("length of output", launch(BlockFormat::Q4_0, &input, 7)),
    ] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, CudaError::Size { what: found, .. } if found == what), "{what}: {error}");
    }
    device.synchronize().unwrap();
}
