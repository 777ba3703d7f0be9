// A matrix product: rows of activations against rows of weights, with a bias or without one.
//
//   output[row, column] = sum over k of input[row, k] * weights[column, k] + bias[column]
//
// The bias is added in f32, before the one rounding. No size but those of a block is fixed when this is compiled, and a
// row's bits depend neither on them nor on the other rows.
//
// Set by the host: what gemm.cuh says.
#include "product.cuh"

// input     [rows, depth]
// weights   [columns, depth]
// bias      [columns], or null
// output    [rows, columns], f32 or bf16 as `is_f32` says: the sums, or those rounded once
//
// Grid (row blocks * column blocks).
extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const bf16 *input, const bf16 *weights, const float *bias, void *output, i32 is_f32, i32 rows, i32 columns,
     i32 depth) {
  extern __shared__ __align__(16) unsigned char memory[];

  const BlockPlace at = block_place(rows, columns);
  const InputRows input_rows([&](i32 r) { return row_in(input, at.first_row + r, rows, depth); });
  const StoredWeights stored([&](i32 c) { return row_in(weights, at.first_column + c, columns, depth); });
  Sums sum = {};
  multiply_rows(sum, (StoredStage *)memory, input_rows, stored, depth);
  store_sums(sum, bias, output, is_f32, at, rows, columns);
}
