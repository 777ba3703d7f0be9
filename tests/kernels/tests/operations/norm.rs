use kernel_tests::{device, operation_cases};
use kernels::cuda::check::{NormProblem, WeightFormat};
use kernels::cuda::{CudaError, CudaSlice, Floats, RmsNorm, RmsNormArgs, RmsNormShape, Rows, RowsMut};

#[test]
fn rows_of_whole_vectors_match_float64() {
    operation_cases::norms(&device(), &[8, 64, 1024, 3072, 4096], 19);
}

#[test]
fn rows_of_any_width_match_float64() {
    operation_cases::norms(&device(), &[1, 111, 500], 19);
}

/// 40960 and 33001 elements are too many for the registers of a block.
#[test]
fn rows_wider_than_the_registers_match_float64() {
    operation_cases::norms(&device(), &[16384, 40960, 33001], 2);
}

#[test]
fn a_row_has_the_same_bits_alone_and_in_a_batch() {
    let device = device();
    let shape = RmsNormShape { width: 1000 };
    let kernel = RmsNorm::compile(&device, shape).unwrap();
    let batch = NormProblem::random(shape, 7, (true, WeightFormat::Bf16), 0, 4);
    let all = batch.run(&device, &kernel).unwrap();
    for count in 1..4 {
        let fewer = batch.first_rows(count).run(&device, &kernel).unwrap();
        assert_eq!(fewer.output, all.output[..count * shape.width]);
        assert_eq!(fewer.residual, all.residual[..count * shape.width]);
    }
}

#[test]
fn every_size_is_checked() {
    /// Rows, stride and length of the input, length of the weight, stride and length of the output.
    const RIGHT: [usize; 6] = [3, 72, 208, 64, 64, 192];
    let device = device();
    let kernel = RmsNorm::compile(&device, RmsNormShape { width: 64 }).unwrap();
    let launch = |sizes: [usize; 6], shift: usize| {
        let [rows, input_stride, input_length, weight, output_stride, output_length] = sizes;
        let input: CudaSlice<u16> = device.zeros(input_length + shift)?;
        let weight: CudaSlice<u16> = device.zeros(weight)?;
        let mut residual: CudaSlice<u16> = device.zeros(192)?;
        let mut output: CudaSlice<u16> = device.zeros(output_length)?;
        device.rms_norm(
            &kernel,
            RmsNormArgs {
                input: Rows { values: input.slice(shift..), stride: input_stride },
                residual: Some(RowsMut { values: residual.as_view_mut(), stride: 64 }),
                weight: Floats::Bf16(weight.as_view()),
                epsilon: 1e-5,
                rows,
                output: RowsMut { values: output.as_view_mut(), stride: output_stride },
            },
        )?;
        device.synchronize()
    };
    launch(RIGHT, 0).unwrap();
    launch([0, 64, 0, 64, 64, 0], 0).unwrap();
    let wrong = [
        ("length of input", 2, 207),
        ("length of weight", 3, 65),
        ("stride of input", 1, 56),
        ("stride of input", 1, 68),
        ("stride of output", 4, 56),
        ("length of output", 5, 191),
        ("length of residual", 0, 4),
    ];
    for (what, index, size) in wrong {
        let mut sizes = RIGHT;
        sizes[index] = size;
        if what == "length of residual" {
            (sizes[2], sizes[5]) = (280, 256);
        }
        let error = launch(sizes, 0).unwrap_err();
        assert!(matches!(error, CudaError::Size { what: found, .. } if found == what), "{what}: {error}");
    }
    let error = launch(RIGHT, 4).unwrap_err();
    assert_eq!(error.to_string(), "the address of input modulo 16 is 8; this launch needs 0");
    let error = RmsNorm::compile(&device, RmsNormShape { width: 0 }).unwrap_err();
    assert_eq!(error.to_string(), "width is 0; supported: 1 to 1048576");
}
