// Matrix products of a mixture of experts: every row of the batch against the weights of the expert it was sent to.
//
//   output[row, n] = sum over k of input[row / ROWS_PER_INPUT, k] * weights[expert, n, k]
//
// The host hands over rows sorted by expert, each expert's rows padded to whole blocks of BLOCK_ROWS with row numbers
// that do not exist. A block computes BLOCK_ROWS rows by BLOCK_COLUMNS columns for one expert: input rows are gathered
// while they are copied into shared memory, so no permuted copy of the batch is ever made.
//
// Set by the host, which also checks them:
//   BLOCK_ROWS       rows of a block: 16, 32, 64 or 128
//   COLUMNS, DEPTH   output and input width of an expert, multiples of 8
//   ROWS_PER_INPUT   output rows that read the same input row: the experts of a token, or 1
#include "common.cuh"

enum : int {
  BLOCK_COLUMNS = 64,
  BLOCK_DEPTH = 32,
  STAGES = 3,
  WARPS = 4,
  THREADS = WARPS * 32,

  WARPS_DOWN = BLOCK_ROWS >= 128 ? 4 : BLOCK_ROWS >= 32 ? 2 : 1,
  WARPS_ACROSS = WARPS / WARPS_DOWN,
  WARP_ROWS = BLOCK_ROWS / WARPS_DOWN,
  WARP_COLUMNS = BLOCK_COLUMNS / WARPS_ACROSS,
  TILES_DOWN = WARP_ROWS / 16,
  TILES_ACROSS = WARP_COLUMNS / 8,

  // A row of a stage is copied as 16-byte chunks, one thread each.
  CHUNKS = BLOCK_DEPTH / 8,
  ROWS_PER_PASS = THREADS / CHUNKS,
  INPUT_PASSES = (BLOCK_ROWS + ROWS_PER_PASS - 1) / ROWS_PER_PASS,
  WEIGHT_PASSES = BLOCK_COLUMNS / ROWS_PER_PASS,

  COLUMN_TILES = (COLUMNS + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS,
  STEPS = (DEPTH + BLOCK_DEPTH - 1) / BLOCK_DEPTH,
};

struct Stage {
  bf16 input[BLOCK_ROWS][BLOCK_DEPTH];
  bf16 weights[BLOCK_COLUMNS][BLOCK_DEPTH];
};

// Where a chunk of a row lies in shared memory. Two rows fill all banks, so a chunk's place within its row is turned by
// the number of the pair: the eight rows of an ldmatrix then meet eight different sets of banks, and so do the eight
// chunks that a quarter of a warp copies.
DEVICE i32 place(i32 row, i32 column) { return column ^ row / 2 % CHUNKS * 8; }

// input           [rows / ROWS_PER_INPUT, DEPTH]
// weights         [experts, COLUMNS, DEPTH]
// output          [rows, COLUMNS]
// sorted_rows     [row blocks, BLOCK_ROWS], row numbers; one outside 0..rows is padding
// block_expert    [row blocks]; -1 marks rows of an expert that lives elsewhere, which get zeros
// used_rows       one number: entries of sorted_rows in use, a multiple of BLOCK_ROWS
//
// Grid (row blocks * COLUMN_TILES); the column tiles of a row block are neighbours, so that they find its input rows in
// the L2 cache.
extern "C" __global__ void __launch_bounds__(THREADS)
grouped_gemm(const bf16 *input, const bf16 *weights, bf16 *output, const i32 *sorted_rows, const i32 *block_expert,
             const i32 *used_rows, i32 rows) {
  __shared__ __align__(16) Stage stages[STAGES];

  const i32 row_block = blockIdx.x / COLUMN_TILES;
  const i32 first_column = blockIdx.x % COLUMN_TILES * BLOCK_COLUMNS;
  if (row_block * BLOCK_ROWS >= *used_rows) return;
  const i32 *block_rows = sorted_rows + (i64)row_block * BLOCK_ROWS;
  const i32 expert = block_expert[row_block];

  const i32 warp = threadIdx.x / 32;
  const i32 lane = threadIdx.x % 32;
  const i32 warp_row = warp % WARPS_DOWN * WARP_ROWS;
  const i32 warp_column = warp / WARPS_DOWN * WARP_COLUMNS;
  float sum[TILES_DOWN][TILES_ACROSS][4];
#pragma unroll
  for (int i = 0; i < TILES_DOWN; i++)
#pragma unroll
    for (int j = 0; j < TILES_ACROSS; j++)
#pragma unroll
      for (int t = 0; t < 4; t++) sum[i][j][t] = 0.0f;

  if (expert >= 0) {
    const i32 copy_row = threadIdx.x / CHUNKS;
    const i32 copy_column = threadIdx.x % CHUNKS * 8;
    // Where each of this thread's chunks starts. What does not exist is pointed at the first row and copied as zeros.
    const bf16 *input_chunk[INPUT_PASSES];
    bool input_exists[INPUT_PASSES];
#pragma unroll
    for (int p = 0; p < INPUT_PASSES; p++) {
      const i32 r = copy_row + p * ROWS_PER_PASS;
      const i32 row = r < BLOCK_ROWS ? block_rows[r] : -1;
      input_exists[p] = (u32)row < (u32)rows;
      input_chunk[p] = input + (i64)(input_exists[p] ? row / ROWS_PER_INPUT : 0) * DEPTH + copy_column;
    }
    const bf16 *weight_chunk[WEIGHT_PASSES];
    bool weight_exists[WEIGHT_PASSES];
#pragma unroll
    for (int p = 0; p < WEIGHT_PASSES; p++) {
      const i32 column = first_column + copy_row + p * ROWS_PER_PASS;
      weight_exists[p] = column < COLUMNS;
      weight_chunk[p] = weights + ((i64)expert * COLUMNS + (weight_exists[p] ? column : 0)) * DEPTH + copy_column;
    }

    // Starts the copies of a step. Past the last step the group is empty, so that every step waits for the same number.
    auto start_copies = [&](i32 step) {
      if (step < STEPS) {
        Stage &stage = stages[step % STAGES];
        const i32 start = step * BLOCK_DEPTH;
        const bool inside = start + copy_column < DEPTH;
#pragma unroll
        for (int p = 0; p < INPUT_PASSES; p++) {
          const i32 r = copy_row + p * ROWS_PER_PASS;
          const bool valid = inside && input_exists[p];
          if (r < BLOCK_ROWS)
            copy16_async(&stage.input[r][place(r, copy_column)], valid ? input_chunk[p] + start : input, valid);
        }
#pragma unroll
        for (int p = 0; p < WEIGHT_PASSES; p++) {
          const i32 r = copy_row + p * ROWS_PER_PASS;
          const bool valid = inside && weight_exists[p];
          copy16_async(&stage.weights[r][place(r, copy_column)], valid ? weight_chunk[p] + start : weights, valid);
        }
      }
      close_copy_group();
    };

#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) start_copies(s);
#pragma unroll 1
    for (i32 step = 0; step < STEPS; step++) {
      wait_for_copies<STAGES - 2>();
      // Two things at once: this step's copies of all threads are now visible to all, and all have finished reading
      // the stage of the previous step, which the next copies overwrite.
      __syncthreads();
      start_copies(step + STAGES - 1);
      const Stage &stage = stages[step % STAGES];
#pragma unroll
      for (int k = 0; k < BLOCK_DEPTH; k += 16) {
        u32 a[TILES_DOWN][4];
        u32 b[TILES_ACROSS / 2][4];
#pragma unroll
        for (int i = 0; i < TILES_DOWN; i++) {
          const i32 r = warp_row + i * 16 + lane % 16;
          load_matrix_x4(a[i], &stage.input[r][place(r, k + lane / 16 * 8)]);
        }
        // One load brings two neighbouring 16x8 tiles: lanes 0-15 address the first, 16-31 the second.
#pragma unroll
        for (int j = 0; j < TILES_ACROSS / 2; j++) {
          const i32 r = warp_column + j * 16 + lane % 8 + lane / 16 * 8;
          load_matrix_x4(b[j], &stage.weights[r][place(r, k + lane / 8 % 2 * 8)]);
        }
#pragma unroll
        for (int i = 0; i < TILES_DOWN; i++)
#pragma unroll
          for (int j = 0; j < TILES_ACROSS; j++)
            mma_16x8x16(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
  }

  // A lane holds, of each 16x8 tile, two neighbouring columns of rows lane/4 and lane/4 + 8.
#pragma unroll
  for (int i = 0; i < TILES_DOWN; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const i32 row = block_rows[warp_row + i * 16 + half * 8 + lane / 4];
      if ((u32)row >= (u32)rows) continue;
      bf16 *to = output + (i64)row * COLUMNS;
#pragma unroll
      for (int j = 0; j < TILES_ACROSS; j++) {
        const i32 column = first_column + warp_column + j * 8 + lane % 4 * 2;
        if (column < COLUMNS) *(u32 *)(to + column) = to_bf16_pair(sum[i][j][half * 2], sum[i][j][half * 2 + 1]);
      }
    }
}
