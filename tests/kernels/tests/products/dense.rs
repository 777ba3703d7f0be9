//! Products with one matrix: against double precision, and what a row's bits do not depend on.

use kernel_tests::device;
use kernel_tests::launches::SortedRows;
use kernel_tests::product_cases::{self, measured_tiles};
use kernels::cuda::check::{Bias, GemmProblem, ProductSize, WeightFormat};
use kernels::cuda::{
    CudaError, CudaSlice, FloatsMut, Gemm, GemmArgs, GemmTile, GemmTiles, GroupedGemm, GroupedGemmShape, RowGroups,
    TunedTile,
};

#[test]
fn every_block_in_every_shape() {
    let device = device();
    for tile in measured_tiles() {
        product_cases::dense(&device, tile);
    }
}

#[test]
fn shapes_and_blocks_drawn_at_random() {
    let device = device();
    let kernel = Gemm::compile(&device, GemmTiles::default()).unwrap();
    for seed in 0..12 {
        product_cases::random_dense(&device, &kernel, seed);
    }
}

/// The numbers of rows and columns, or a measurement, decide which block computes a product, and a batch grows and shrinks.
#[test]
fn a_row_has_the_same_bits_in_every_block_and_batch() {
    let device = device();
    let size = ProductSize { rows: 70, columns: 150, depth: 328 };
    let problem = GemmProblem::random(size, Bias::Random, 81);
    let run = |problem: &GemmProblem, tiles| {
        let kernel = Gemm::compile(&device, tiles).unwrap();
        let found = problem.run(&device, &kernel, WeightFormat::F32).unwrap();
        found.output.iter().map(|value| value.to_bits()).collect::<Vec<_>>()
    };
    let whole = run(&problem, GemmTiles::only(GemmTile::MANY));
    for tile in measured_tiles() {
        assert!(run(&problem, GemmTiles::only(tile)) == whole, "{tile:?}");
        for rows in [0..1, 5..21, 40..70] {
            let part = run(&problem.with_rows(rows.clone()), GemmTiles::only(tile));
            assert!(part == whole[rows.start * size.columns..rows.end * size.columns], "{tile:?}, rows {rows:?}");
        }
    }
}

/// Kernels that nothing needs are not compiled, and those that have been prepared are not compiled later.
#[test]
fn blocks_are_compiled_when_they_are_prepared_or_first_wanted() {
    let device = device();
    let [few, large] =
        [ProductSize { rows: 3, columns: 40, depth: 64 }, ProductSize { rows: 70, columns: 40, depth: 64 }];
    let problems = [few, large].map(|size| GemmProblem::random(size, Bias::None, 84));
    let kernel = Gemm::new(GemmTiles::tuned([TunedTile { columns: 40, depth: 64, rows: 8, tile: GemmTile::FEW }]));
    let loaded = || {
        let programs = device.loaded_programs();
        programs.iter().filter(|program| program.source.name == "gemm.cu").map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(loaded(), [""; 0]);
    kernel.prepare(&device, few.rows, few.columns, few.depth).unwrap();
    assert!(matches!(&loaded()[..], [one] if one.contains("BLOCK_COLUMNS=32")), "{:?}", loaded());
    problems[0].run(&device, &kernel, WeightFormat::F32).unwrap();
    assert_eq!(loaded().len(), 1);
    problems[1].run(&device, &kernel, WeightFormat::F32).unwrap();
    assert!(matches!(&loaded()[..], [_, two] if two.contains("BLOCK_ROWS=64")), "{:?}", loaded());
    kernel.compile_all(&device).unwrap();
    assert_eq!(loaded().len(), 4);
}

/// So a product can move from one kernel to the other without a change of any bit.
#[test]
fn a_product_has_the_bits_of_a_grouped_product_of_one_group() {
    const ROWS: usize = 37;
    let shape = GroupedGemmShape { block_rows: 32, experts: 1, columns: 104, depth: 200, rows_per_input: 1 };
    let device = device();
    let mut noise = kernels::cuda::check::Noise::new(82);
    let input = device.upload(&noise.normal_bf16(ROWS * shape.depth)).unwrap();
    let weights = device.upload(&noise.normal_bf16(shape.columns * shape.depth)).unwrap();
    let mut outputs: [CudaSlice<u16>; 2] = [(); 2].map(|()| device.zeros(ROWS * shape.columns).unwrap());

    let groups = RowGroups::new(&[0; ROWS], 1, shape.block_rows).unwrap();
    let sorted = SortedRows::upload(&device, &groups).unwrap();
    let kernel = GroupedGemm::compile(&device, shape).unwrap();
    device.grouped_gemm(&kernel, sorted.product(&input, &weights, ROWS, &mut outputs[0])).unwrap();

    let args = GemmArgs {
        input: input.as_view(),
        weights: weights.as_view(),
        bias: None,
        rows: ROWS,
        columns: shape.columns,
        depth: shape.depth,
        output: FloatsMut::Bf16(outputs[1].as_view_mut()),
    };
    device.gemm(&Gemm::compile(&device, GemmTiles::default()).unwrap(), args).unwrap();
    let [grouped, dense] = outputs.map(|output| device.download(&output).unwrap());
    assert!(grouped == dense);
}

/// Of a row that nearly cancels its bias, a sum that is rounded before the bias is added keeps few digits.
#[test]
fn a_bias_is_added_before_the_result_is_rounded() {
    let device = device();
    let kernel = Gemm::compile(&device, GemmTiles::default()).unwrap();
    let size = ProductSize { rows: 1, columns: 72, depth: 256 };
    let problem = GemmProblem::random(size, Bias::Cancelling, 83);
    let found = problem.run(&device, &kernel, WeightFormat::Bf16).unwrap();
    let comparison = problem.compare(&found, WeightFormat::Bf16);
    println!("{comparison}");
    assert!(comparison.relative < 4e-3, "{comparison}");
}

#[test]
fn every_size_is_checked() {
    /// Rows, columns and depth, then lengths of input, weights, bias and output, and elements to skip of the input.
    const RIGHT: [usize; 8] = [3, 10, 16, 48, 160, 10, 30, 0];
    let device = device();
    let kernel = Gemm::compile(&device, GemmTiles::only(GemmTile::NARROW)).unwrap();
    let launch = |sizes: [usize; 8], is_f32: bool| {
        let [rows, columns, depth, input, weights, bias, output, skip] = sizes;
        let input: CudaSlice<u16> = device.zeros(input + skip)?;
        let weights: CudaSlice<u16> = device.zeros(weights)?;
        let bias: CudaSlice<f32> = device.zeros(bias)?;
        let mut bf16: CudaSlice<u16> = device.zeros(output)?;
        let mut f32: CudaSlice<f32> = device.zeros(output)?;
        let output = if is_f32 { FloatsMut::F32(f32.as_view_mut()) } else { FloatsMut::Bf16(bf16.as_view_mut()) };
        let args = GemmArgs {
            input: input.slice(skip..),
            weights: weights.as_view(),
            bias: Some(bias.as_view()),
            rows,
            columns,
            depth,
            output,
        };
        device.gemm(&kernel, args)?;
        device.synchronize()
    };
    let wrong = [
        ("rows", 0, (1 << 30) + 1),
        ("columns", 1, 0),
        ("columns", 1, (1 << 27) + 1),
        ("depth", 2, 0),
        ("depth", 2, 12),
        ("depth", 2, 1 << 28),
        ("length of input", 3, 47),
        ("length of weights", 4, 161),
        ("length of bias", 5, 9),
        ("length of output", 6, 31),
        ("the input's address modulo 16", 7, 4),
    ];
    for is_f32 in [false, true] {
        launch(RIGHT, is_f32).unwrap();
        for (what, index, size) in wrong {
            let mut sizes = RIGHT;
            sizes[index] = size;
            let error = launch(sizes, is_f32).unwrap_err();
            assert!(matches!(error, CudaError::Size { what: found, .. } if found == what), "{what}: {error}");
        }
    }
}
