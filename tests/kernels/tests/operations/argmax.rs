use kernel_tests::{device, operation_cases};
use kernels::cuda::{Argmax, ArgmaxArgs, CudaError, CudaSlice, Floats};

#[test]
fn the_first_of_the_likeliest_tokens_is_chosen_and_none_where_there_is_none() {
    operation_cases::likeliest(&device());
}

#[test]
fn every_size_is_checked() {
    let device = device();
    let kernel = Argmax::compile(&device).unwrap();
    let launch = |length: usize, stride: usize, vocabulary: usize, rows: usize| {
        let logits: CudaSlice<f32> = device.zeros(length)?;
        let mut tokens: CudaSlice<i32> = device.zeros(rows)?;
        let logits = Floats::F32(logits.as_view());
        device.argmax(&kernel, ArgmaxArgs { logits, stride, vocabulary, tokens: tokens.as_view_mut() })?;
        device.synchronize()
    };
    launch(27, 10, 7, 3).unwrap();
    for (what, outcome) in [
        ("length of logits", launch(26, 10, 7, 3)),
        ("stride of logits", launch(27, 6, 7, 3)),
        ("vocabulary", launch(27, 10, 0, 3)),
    ] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, CudaError::Size { what: found, .. } if found == what), "{what}: {error}");
    }
}
