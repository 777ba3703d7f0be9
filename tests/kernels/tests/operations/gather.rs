use kernel_tests::{device, operation_cases};
use kernels::cuda::{CudaError, CudaSlice, GatherRows, GatherRowsArgs, GatherRowsShape, RowNumbers, Rows, RowsMut};

#[test]
fn rows_are_copied_and_rows_that_are_not_there_are_zeros() {
    operation_cases::gathers(&device());
}

#[test]
fn every_size_is_checked() {
    /// Rows, stride and length of the table, stride and length of the output.
    const RIGHT: [usize; 5] = [5, 24, 112, 16, 48];
    let device = device();
    let kernel = GatherRows::compile(&device, GatherRowsShape { width: 16 }).unwrap();
    let numbers: CudaSlice<u32> = device.upload(&[0, 4, 2]).unwrap();
    let launch = |sizes: [usize; 5]| {
        let [table_rows, table_stride, table_length, output_stride, output_length] = sizes;
        let table: CudaSlice<u16> = device.zeros(table_length)?;
        let mut output: CudaSlice<u16> = device.zeros(output_length)?;
        device.gather_rows(
            &kernel,
            GatherRowsArgs {
                table: Rows { values: table.as_view(), stride: table_stride },
                table_rows,
                rows: RowNumbers::U32(numbers.as_view()),
                output: RowsMut { values: output.as_view_mut(), stride: output_stride },
            },
        )?;
        device.synchronize()
    };
    launch(RIGHT).unwrap();
    let wrong = [
        ("length of table", 0, 6),
        ("table_rows", 0, 1 << 31),
        ("stride of table", 1, 28),
        ("length of table", 2, 111),
        ("stride of output", 3, 8),
        ("length of output", 4, 47),
    ];
    for (what, index, size) in wrong {
        let mut sizes = RIGHT;
        sizes[index] = size;
        let error = launch(sizes).unwrap_err();
        assert!(matches!(error, CudaError::Size { what: found, .. } if found == what), "{what}: {error}");
    }
}
