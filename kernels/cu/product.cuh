#pragma once
// A product with one matrix: which block computes what, and how its sums become the output.
#include "gemm.cuh"

// Blocks of rows that are worked on at the same time: their columns' weights are then read once, and found in the L2
// cache by the others.
enum : int { TOGETHER = 8 };

struct BlockPlace {
  i32 first_row, first_column;
};

// Where this block's part of the output begins, in a grid of as many blocks as there are parts.
DEVICE BlockPlace block_place(i32 rows, i32 columns) {
  const i32 row_blocks = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
  const i32 column_blocks = (columns + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS;
  const i32 first_together = blockIdx.x / (TOGETHER * column_blocks) * TOGETHER;
  const i32 together = min(TOGETHER, row_blocks - first_together);
  const i32 number = blockIdx.x % (TOGETHER * column_blocks);
  return {(first_together + number % together) * BLOCK_ROWS, number / together * BLOCK_COLUMNS};
}

// Row `row` of `end` rows of `width` elements.
DEVICE Row row_in(const u16 *matrix, i32 row, i32 end, i32 width) {
  return {matrix + (i64)row * width, row < end};
}

// Adds to every sum its column's bias, unless that is null.
DEVICE void add_bias(Sums &sum, const float *bias, BlockPlace at, i32 columns) {
#pragma unroll
  for (int j = 0; j < TILES_ACROSS; j++)
#pragma unroll
    for (int next = 0; next < 2; next++) {
      const i32 column = at.first_column + column_of(j) + next;
      const float more = bias && column < columns ? bias[column] : 0.0f;
#pragma unroll
      for (int i = 0; i < TILES_DOWN; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) sum[i][j][half * 2 + next] += more;
    }
}

DEVICE void put(float *to, float x) { *to = x; }
DEVICE void put(bf16 *to, float x) { *to = to_bf16(x); }
DEVICE void put(float *to, float x, float y) { *(float2 *)to = make_float2(x, y); }
DEVICE void put(bf16 *to, float x, float y) { *(u32 *)to = to_bf16_pair(x, y); }

// Writes the sums of a block to `output` of [rows, columns].
template <typename OUTPUT>
DEVICE void store_sums(const Sums &sum, OUTPUT *output, BlockPlace at, i32 rows, i32 columns) {
  // With an odd number of columns, pairs of them do not lie at multiples of their size.
  const bool pairs = columns % 2 == 0;
#pragma unroll
  for (int i = 0; i < TILES_DOWN; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const i32 row = at.first_row + row_of(i, half);
      if (row >= rows) continue;
      OUTPUT *to = output + (i64)row * columns;
#pragma unroll
      for (int j = 0; j < TILES_ACROSS; j++) {
        const i32 column = at.first_column + column_of(j);
        if (pairs) {
          if (column < columns) put(to + column, sum[i][j][half * 2], sum[i][j][half * 2 + 1]);
          continue;
        }
#pragma unroll
        for (int next = 0; next < 2; next++)
          if (column + next < columns) put(to + column + next, sum[i][j][half * 2 + next]);
      }
    }
}

// Writes them as they are or rounded, each with its column's bias unless that is null.
DEVICE void store_sums(Sums &sum, const float *bias, void *output, bool is_f32, BlockPlace at, i32 rows, i32 columns) {
  add_bias(sum, bias, at, columns);
  if (is_f32)
    store_sums(sum, (float *)output, at, rows, columns);
  else
    store_sums(sum, (bf16 *)output, at, rows, columns);
}
