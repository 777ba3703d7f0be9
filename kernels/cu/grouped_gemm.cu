// Matrix products of a mixture of experts: every row of the batch against the weights of the expert it was sent to.
//
//   output[row, n] = sum over k of input[row / ROWS_PER_INPUT, k] * weights[expert, n, k]
//
// The host hands over rows sorted by expert, each expert's rows padded to whole blocks of BLOCK_ROWS with row numbers
// that do not exist. A block computes BLOCK_ROWS rows by BLOCK_COLUMNS columns for one expert: input rows are gathered
// while they are copied into shared memory, so no permuted copy of the batch is ever made.
//
// Set by the host, which also checks them, beside what gemm.cuh says:
//   COLUMNS, DEPTH   output and input width of an expert, multiples of 8
//   ROWS_PER_INPUT   output rows that read the same input row: the experts of a token, or 1
#include "gemm.cuh"

enum : int { COLUMN_BLOCKS = (COLUMNS + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS };

// input           [rows / ROWS_PER_INPUT, DEPTH]
// weights         [experts, COLUMNS, DEPTH]
// output          [rows, COLUMNS]
// sorted_rows     [row blocks, BLOCK_ROWS], row numbers; one outside 0..rows is padding
// block_expert    [row blocks]; -1 marks rows of an expert that lives elsewhere, which get zeros
// used_rows       one number: entries of sorted_rows in use, a multiple of BLOCK_ROWS
//
// Grid (row blocks * COLUMN_BLOCKS); the column blocks of a row block are neighbours, so that they find its input rows in
// the L2 cache.
extern "C" __global__ void __launch_bounds__(THREADS)
grouped_gemm(const bf16 *input, const bf16 *weights, bf16 *output, const i32 *sorted_rows, const i32 *block_expert,
             const i32 *used_rows, i32 rows) {
  extern __shared__ __align__(16) unsigned char memory[];

  const i32 row_block = blockIdx.x / COLUMN_BLOCKS;
  const i32 first_column = blockIdx.x % COLUMN_BLOCKS * BLOCK_COLUMNS;
  if (row_block * BLOCK_ROWS >= *used_rows) return;
  const i32 *block_rows = sorted_rows + (i64)row_block * BLOCK_ROWS;
  const i32 expert = block_expert[row_block];

  Sums sum;
  clear(sum);
  if (expert >= 0) {
    const Copies<BLOCK_ROWS> input_rows([&](i32 r) {
      const i32 row = block_rows[r];
      const bool exists = (u32)row < (u32)rows;
      return Row{input + (i64)(exists ? row / ROWS_PER_INPUT : 0) * DEPTH, exists};
    });
    const Copies<BLOCK_COLUMNS> weight_rows([&](i32 c) {
      const i32 column = first_column + c;
      const bool exists = column < COLUMNS;
      return Row{weights + ((i64)expert * COLUMNS + (exists ? column : 0)) * DEPTH, exists};
    });
    multiply_rows(sum, (Stage *)memory, input_rows, weight_rows, DEPTH);
  }

#pragma unroll
  for (int i = 0; i < TILES_DOWN; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const i32 row = block_rows[row_of(i, half)];
      if ((u32)row >= (u32)rows) continue;
      bf16 *to = output + (i64)row * COLUMNS;
#pragma unroll
      for (int j = 0; j < TILES_ACROSS; j++) {
        const i32 column = first_column + column_of(j);
        if (column < COLUMNS) *(u32 *)(to + column) = to_bf16_pair(sum[i][j][half * 2], sum[i][j][half * 2 + 1]);
      }
    }
}
