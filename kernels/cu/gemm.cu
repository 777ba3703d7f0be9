// A matrix product: rows of activations against rows of weights, with a bias or without one.
//
//   output[row, column] = sum over k of input[row, k] * weights[column, k] + bias[column]
//
// The bias is added in f32, before the one rounding. No size but those of a block is fixed when this is compiled, and a
// row's bits depend neither on them nor on the other rows.
//
// Set by the host: what gemm.cuh says.
#include "gemm.cuh"

// Blocks of rows that are worked on at the same time: their columns' weights are then read once, and found in the L2
// cache by the others.
enum : int { TOGETHER = 8 };

DEVICE void put(bf16 *to, float x, float y, bool both) {
  if (both)
    *(u32 *)to = to_bf16_pair(x, y);
  else
    *to = to_bf16(x);
}

DEVICE void put(float *to, float x, float y, bool both) {
  if (both)
    *(float2 *)to = make_float2(x, y);
  else
    *to = x;
}

template <typename OUTPUT>
DEVICE void product(const bf16 *input, const bf16 *weights, const float *bias, OUTPUT *output, i32 rows, i32 columns,
                    i32 depth) {
  extern __shared__ __align__(16) unsigned char memory[];

  const i32 row_blocks = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
  const i32 column_blocks = (columns + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS;
  const i32 first_together = blockIdx.x / (TOGETHER * column_blocks) * TOGETHER;
  const i32 together = min(TOGETHER, row_blocks - first_together);
  const i32 number = blockIdx.x % (TOGETHER * column_blocks);
  const i32 first_row = (first_together + number % together) * BLOCK_ROWS;
  const i32 first_column = number / together * BLOCK_COLUMNS;

  auto row_in = [&](const bf16 *matrix, i32 row, i32 end) {
    const bool exists = row < end;
    return Row{matrix + (i64)(exists ? row : 0) * depth, exists};
  };
  const Copies<BLOCK_ROWS> input_rows([&](i32 r) { return row_in(input, first_row + r, rows); });
  const Copies<BLOCK_COLUMNS> weight_rows([&](i32 c) { return row_in(weights, first_column + c, columns); });
  Sums sum;
  clear(sum);
  multiply_rows(sum, (Stage *)memory, input_rows, weight_rows, depth);

  // With an odd number of columns, pairs of them do not lie at multiples of their size.
  const bool pairs = columns % 2 == 0;
#pragma unroll
  for (int j = 0; j < TILES_ACROSS; j++) {
    const i32 column = first_column + column_of(j);
    if (column >= columns) continue;
    const bool two = column + 1 < columns;
    const float more[2] = {bias ? bias[column] : 0.0f, bias && two ? bias[column + 1] : 0.0f};
#pragma unroll
    for (int i = 0; i < TILES_DOWN; i++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const i32 row = first_row + row_of(i, half);
        if (row >= rows) continue;
        OUTPUT *to = output + (i64)row * columns + column;
        const float x = sum[i][j][half * 2] + more[0], y = sum[i][j][half * 2 + 1] + more[1];
        put(to, x, y, pairs);
        if (!pairs && two) put(to + 1, y, 0.0f, false);
      }
  }
}

// input     [rows, depth]
// weights   [columns, depth]
// bias      [columns], or null
// output    [rows, columns]
//
// Grid (row blocks * column blocks).
#define GEMM(NAME, OUTPUT)                                                                                            \
  extern "C" __global__ void __launch_bounds__(THREADS)                                                               \
  NAME(const bf16 *input, const bf16 *weights, const float *bias, OUTPUT *output, i32 rows, i32 columns, i32 depth) { \
    product(input, weights, bias, output, rows, columns, depth);                                                      \
  }

GEMM(gemm_bf16, bf16)
GEMM(gemm_f32, float)
