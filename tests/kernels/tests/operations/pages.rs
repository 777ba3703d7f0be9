use kernel_tests::{device, operation_cases};
use kernels::cuda::{CopyPages, CopyPagesArgs, CudaError, CudaSlice};

#[test]
fn pages_are_copied_bit_for_bit_and_nothing_else_changes() {
    operation_cases::page_copies(&device());
}

#[test]
fn every_size_is_checked() {
    let device = device();
    let kernel = CopyPages::compile(&device).unwrap();
    let launch = |pool: usize, page_stride: usize, page_length: usize, pairs: usize| {
        let mut keys: CudaSlice<u16> = device.zeros(88)?;
        let mut values: CudaSlice<u16> = device.zeros(pool)?;
        // Pairs of no page: two copies to one page would race.
        let pairs = device.upload(&vec![-1; pairs])?;
        device.copy_pages(
            &kernel,
            CopyPagesArgs {
                keys: keys.as_view_mut(),
                values: values.as_view_mut(),
                pages: 3,
                page_stride,
                page_length,
                pairs: pairs.as_view(),
            },
        )?;
        device.synchronize()
    };
    launch(88, 32, 24, 4).unwrap();
    for (what, outcome) in [
        ("length of the value pool", launch(87, 32, 24, 4)),
        ("page_stride", launch(88, 28, 24, 4)),
        ("page_length", launch(88, 32, 20, 4)),
        ("page_length", launch(88, 32, 40, 4)),
        ("length of pairs", launch(88, 32, 24, 3)),
    ] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, CudaError::Size { what: found, .. } if found == what), "{what}: {error}");
    }
}
