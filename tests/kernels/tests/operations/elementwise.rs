use kernel_tests::{device, operation_cases};
use kernels::cuda::{CudaError, CudaSlice, Rows, RowsMut, SiluMul, SiluMulArgs, SiluMulShape};

#[test]
fn activations_match_float64() {
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
