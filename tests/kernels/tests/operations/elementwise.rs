use kernel_tests::{device, operation_cases};
use kernels::cuda::{
    AddBias, AddBiasArgs, AddBiasShape, CudaError, CudaSlice, Floats, Rows, RowsMut, SiluMul, SiluMulArgs, SiluMulShape,
};

#[test]
fn activations_match_float64_and_biases_are_exact() {
    operation_cases::elementwise(&device());
}

#[test]
fn every_size_of_an_activation_is_checked() {
    let device = device();
    let kernel = SiluMul::compile(&device, SiluMulShape { width: 16 }).unwrap();
    let launch = |rows: usize, (length, stride): (usize, usize), output: usize| {
        let gate_up: CudaSlice<u16> = device.zeros(length)?;
        let mut result: CudaSlice<u16> = device.zeros(output)?;
        device.silu_mul(
            &kernel,
            SiluMulArgs {
                gate_up: Rows { values: gate_up.as_view(), stride },
                rows,
                output: RowsMut { values: result.as_view_mut(), stride: 16 },
            },
        )?;
        device.synchronize()
    };
    launch(3, (112, 40), 48).unwrap();
    for (what, outcome) in [
        ("length of gate_up", launch(3, (111, 40), 48)),
        ("stride of gate_up", launch(3, (112, 24), 48)),
        ("stride of gate_up", launch(3, (112, 36), 48)),
        ("length of output", launch(3, (112, 40), 47)),
        ("rows", launch(1 << 31, (112, 40), 48)),
    ] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, CudaError::Size { what: found, .. } if found == what), "{what}: {error}");
    }
}

#[test]
fn every_size_of_a_bias_is_checked() {
    let device = device();
    let kernel = AddBias::compile(&device, AddBiasShape { width: 16 }).unwrap();
    let launch = |rows: usize, length: usize, (bias, shift): (usize, usize)| {
        let mut values: CudaSlice<u16> = device.zeros(length)?;
        let bias: CudaSlice<u16> = device.zeros(bias + shift)?;
        device.add_bias(
            &kernel,
            AddBiasArgs {
                values: RowsMut { values: values.as_view_mut(), stride: 24 },
                rows,
                bias: Floats::Bf16(bias.slice(shift..)),
            },
        )?;
        device.synchronize()
    };
    launch(3, 64, (16, 0)).unwrap();
    for (what, outcome) in [
        ("length of values", launch(3, 63, (16, 0))),
        ("length of bias", launch(3, 64, (24, 0))),
        ("the address of bias modulo 16", launch(3, 64, (16, 4))),
    ] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, CudaError::Size { what: found, .. } if found == what), "{what}: {error}");
    }
}
