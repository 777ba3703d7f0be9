// Matrix products of a mixture of experts: every row of the batch against the weights of the expert it was sent to.
//
//   output[row, n] = sum over k of input[row / ROWS_PER_INPUT, k] * weights[expert, n, k]
//
// or, gated, with twice as many weights, gates before ups:
//
//   output[row, n] = silu(product with weights[expert, n]) * (product with weights[expert, COLUMNS + n])
//
// The host hands over rows sorted by expert, each expert's rows padded to whole blocks of BLOCK_ROWS with row numbers
// that do not exist. A block computes BLOCK_ROWS rows by BLOCK_COLUMNS products for one expert: input rows are gathered
// while they are copied into shared memory, so no permuted copy of the batch is ever made.
//
// Set by the host, which also checks them, beside what gemm.cuh says:
//   COLUMNS, DEPTH   output and input width of an expert, multiples of 8
//   ROWS_PER_INPUT   output rows that read the same input row: the experts of a token, or 1
//   GATED            1: gated; 0: a product
#include "gemm.cuh"

enum : int {
  // Gated, eight gates and eight ups take turns among the columns of a block: a lane has both of the same output.
  BLOCK_OUTPUTS = GATED ? BLOCK_COLUMNS / 2 : BLOCK_COLUMNS,
  COLUMN_BLOCKS = (COLUMNS + BLOCK_OUTPUTS - 1) / BLOCK_OUTPUTS,
};

// input           [rows / ROWS_PER_INPUT, DEPTH]
// weights         [experts, COLUMNS or, gated, 2 * COLUMNS, DEPTH]
// output          [rows, COLUMNS]
// sorted_rows     [row blocks, BLOCK_ROWS], row numbers; one outside 0..rows is padding
// block_expert    [row blocks]; -1 marks rows of an expert that lives elsewhere, which get zeros
// used_rows       one number: entries of sorted_rows in use, a multiple of BLOCK_ROWS
//
// Grid (row blocks * COLUMN_BLOCKS); the column blocks of a row block are neighbours, so that they find its input rows
// in the L2 cache.
extern "C" __global__ void __launch_bounds__(THREADS)
grouped_gemm(const bf16 *input, const bf16 *weights, bf16 *output, const i32 *sorted_rows, const i32 *block_expert,
             const i32 *used_rows, i32 rows) {
  extern __shared__ __align__(16) unsigned char memory[];

  const i32 row_block = blockIdx.x / COLUMN_BLOCKS;
  const i32 first_column = blockIdx.x % COLUMN_BLOCKS * BLOCK_OUTPUTS;
  if (row_block * BLOCK_ROWS >= *used_rows) return;
  const i32 *block_rows = sorted_rows + (i64)row_block * BLOCK_ROWS;
  const i32 expert = block_expert[row_block];

  Sums sum = {};
  if (expert >= 0) {
    const InputRows input_rows([&](i32 r) {
      const i32 row = block_rows[r];
      const bool exists = (u32)row < (u32)rows;
      return Row{input + (i64)(row / ROWS_PER_INPUT) * DEPTH, exists};
    });
    const StoredWeights weight_rows([&](i32 c) {
      const i32 column = first_column + (GATED ? c / 16 * 8 + c % 8 : c);
      const bool exists = column < COLUMNS, up = GATED && c / 8 % 2 == 1;
      const i64 row = (i64)expert * (GATED ? 2 * COLUMNS : COLUMNS) + (up ? COLUMNS : 0) + (exists ? column : 0);
      return Row{weights + row * DEPTH, exists};
    });
    multiply_rows(sum, (StoredStage *)memory, input_rows, weight_rows, DEPTH);
  }

#pragma unroll
  for (int i = 0; i < TILES_DOWN; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const i32 row = block_rows[row_of(i, half)];
      if ((u32)row >= (u32)rows) continue;
      bf16 *to = output + (i64)row * COLUMNS;
#pragma unroll
      for (int j = 0; j < TILES_ACROSS; j += GATED ? 2 : 1) {
        const float *x = &sum[i][j][half * 2];
        if constexpr (GATED) {
          const i32 column = first_column + (warp_column() + j * 8) / 2 + threadIdx.x % 4 * 2;
          const float *up = &sum[i][j + 1][half * 2];
          if (column < COLUMNS) *(u32 *)(to + column) = to_bf16_pair(silu(x[0]) * up[0], silu(x[1]) * up[1]);
        } else {
          const i32 column = first_column + column_of(j);
          if (column < COLUMNS) *(u32 *)(to + column) = to_bf16_pair(x[0], x[1]);
        }
      }
    }
}
