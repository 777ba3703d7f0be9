#pragma once
// The main loop of matrix products with tensor cores: a block of rows of one matrix against a block of rows of another.
//
//   sum[row, column] = sum over k of input[row, k] * weights[column, k]
//
// A block copies BLOCK_DEPTH elements of its rows and columns at a time, STAGES - 1 steps ahead, and its warps each
// multiply a part. How weights are stored and become bf16 is theirs: StoredWeights here, others in their own files.
// Every sum goes over k in the same order, sixteen at a time, whatever the sizes of a block: a row has the same bits in
// all of them.
//
// Set by the host, which also checks them:
//   BLOCK_ROWS, BLOCK_COLUMNS    rows and columns of a block
//   BLOCK_DEPTH                  elements of a row or column in a step: 32, 64 or 128
//   STAGES                       steps that shared memory has room for, at least 2
//   WARPS_DOWN, WARPS_ACROSS     how the warps share the block; each has whole tiles of 16 rows by 16 columns
#include "common.cuh"

enum : int {
  THREADS = WARPS_DOWN * WARPS_ACROSS * 32,
  WARP_ROWS = BLOCK_ROWS / WARPS_DOWN,
  WARP_COLUMNS = BLOCK_COLUMNS / WARPS_ACROSS,
  TILES_DOWN = WARP_ROWS / 16,
  TILES_ACROSS = WARP_COLUMNS / 8,
};

typedef float Sums[TILES_DOWN][TILES_ACROSS][4];

// Rows of WIDTH 16-bit elements in shared memory are copied as 16-byte chunks, one thread each. A chunk's place within
// its row is turned by the number of the line, which is as many rows as fill all banks once: the eight rows of an
// ldmatrix then meet eight different sets of banks, as do the eight chunks that a quarter of a warp copies.
template <int WIDTH> DEVICE i32 place(i32 row, i32 column) {
  enum : int { CHUNKS = WIDTH / 8, ROWS_PER_LINE = CHUNKS < 8 ? 8 / CHUNKS : 1, TURNS = CHUNKS < 8 ? CHUNKS : 8 };
  return column ^ row / ROWS_PER_LINE % TURNS * 8;
}

// A row of 16-bit elements in global memory. Of one that there is not, `start` is nowhere.
struct Row {
  const u16 *start;
  bool exists;
};

// What a thread copies of ROWS rows in each step of WIDTH elements: the same chunk of every ROWS_PER_PASS-th.
template <int ROWS, int WIDTH> struct Copies {
  enum : int {
    CHUNKS = WIDTH / 8,
    ROWS_PER_PASS = THREADS / CHUNKS,
    PASSES = (ROWS + ROWS_PER_PASS - 1) / ROWS_PER_PASS,
    // Whether each pass has a row for every thread.
    WHOLE = ROWS % ROWS_PER_PASS == 0,
  };
  Row row[PASSES];
  i32 first, column;

  // `find` says which row is number r of the block.
  template <class FIND> DEVICE explicit Copies(const FIND &find) {
    first = threadIdx.x / CHUNKS;
    column = threadIdx.x % CHUNKS * 8;
#pragma unroll
    for (int p = 0; p < PASSES; p++) {
      const i32 r = first + p * ROWS_PER_PASS;
      row[p] = find(WHOLE || r < ROWS ? r : 0);
    }
  }

  // Starts the copies of a step. What is beyond `width`, or of no row, becomes zeros.
  DEVICE void start(u16 (&to)[ROWS][WIDTH], i32 step, i32 width) const {
    const i32 start = step * WIDTH;
    const bool inside = start + column < width;
#pragma unroll
    for (int p = 0; p < PASSES; p++) {
      const i32 r = first + p * ROWS_PER_PASS;
      if (WHOLE || r < ROWS)
        copy16_async(&to[r][place<WIDTH>(r, column)], row[p].start + start + column, inside && row[p].exists);
    }
  }
};

typedef Copies<BLOCK_ROWS, BLOCK_DEPTH> InputRows;

DEVICE i32 warp_row() { return threadIdx.x / 32 % WARPS_DOWN * WARP_ROWS; }
DEVICE i32 warp_column() { return threadIdx.x / 32 / WARPS_DOWN * WARP_COLUMNS; }

// Of each 16x8 tile a lane holds two neighbouring columns of two rows: sum[i][j][2 * half] and the next one belong to
// this row of the block, and to this column and the next.
DEVICE i32 row_of(int i, int half) { return warp_row() + i * 16 + half * 8 + threadIdx.x % 32 / 4; }
DEVICE i32 column_of(int j) { return warp_column() + j * 8 + threadIdx.x % 4 * 2; }

// Weights that are stored as bf16.
struct StoredWeights {
  // Elements that one load brings.
  enum : int { UNIT = 16 };
  struct Panel {
    bf16 rows[BLOCK_COLUMNS][BLOCK_DEPTH];
  };
  struct Unit {
    u32 tiles[TILES_ACROSS / 2][4];
  };

  Copies<BLOCK_COLUMNS, BLOCK_DEPTH> copies;

  // `find` says which row of weights is number c of the block.
  template <class FIND> DEVICE explicit StoredWeights(const FIND &find) : copies(find) {}

  DEVICE void start(Panel &to, i32 step, i32 depth) const { copies.start(to.rows, step, depth); }

  // One load brings two neighbouring 16x8 tiles: lanes 0-15 address the first, 16-31 the second.
  DEVICE static Unit load(const Panel &panel, i32 k) {
    const i32 lane = threadIdx.x % 32;
    Unit unit;
#pragma unroll
    for (int j = 0; j < TILES_ACROSS / 2; j++) {
      const i32 r = warp_column() + j * 16 + lane % 8 + lane / 16 * 8;
      load_matrix_x4(unit.tiles[j], &panel.rows[r][place<BLOCK_DEPTH>(r, k + lane / 8 % 2 * 8)]);
    }
    return unit;
  }

  // The tile of columns j.
  DEVICE static void tile(u32 (&b)[2], const Unit &unit, int, int j) {
    b[0] = unit.tiles[j / 2][j % 2 * 2];
    b[1] = unit.tiles[j / 2][j % 2 * 2 + 1];
  }
};

template <class WEIGHTS> struct Stage {
  bf16 input[BLOCK_ROWS][BLOCK_DEPTH];
  typename WEIGHTS::Panel weights;
};

typedef Stage<StoredWeights> StoredStage;

// Adds the products of a stage.
template <class WEIGHTS> DEVICE void multiply(Sums &sum, const Stage<WEIGHTS> &stage, const WEIGHTS &weights) {
  const i32 lane = threadIdx.x % 32;
#pragma unroll
  for (int start = 0; start < BLOCK_DEPTH; start += WEIGHTS::UNIT) {
    const auto unit = weights.load(stage.weights, start);
#pragma unroll
    for (int sixteen = 0; sixteen < WEIGHTS::UNIT / 16; sixteen++) {
      u32 a[TILES_DOWN][4];
      u32 b[TILES_ACROSS][2];
#pragma unroll
      for (int i = 0; i < TILES_DOWN; i++) {
        const i32 r = warp_row() + i * 16 + lane % 16;
        load_matrix_x4(a[i], &stage.input[r][place<BLOCK_DEPTH>(r, start + sixteen * 16 + lane / 16 * 8)]);
      }
#pragma unroll
      for (int j = 0; j < TILES_ACROSS; j++) weights.tile(b[j], unit, sixteen, j);
#pragma unroll
      for (int i = 0; i < TILES_DOWN; i++)
#pragma unroll
        for (int j = 0; j < TILES_ACROSS; j++) mma_16x8x16(sum[i][j], a[i], b[j][0], b[j][1]);
    }
  }
}

// Adds the products of whole rows of `depth` elements. There is room for STAGES stages.
template <class WEIGHTS>
DEVICE void multiply_rows(Sums &sum, Stage<WEIGHTS> *stages, const InputRows &input, const WEIGHTS &weights,
                          i32 depth) {
  const i32 steps = (depth + BLOCK_DEPTH - 1) / BLOCK_DEPTH;
  // Past the last step the group is empty, so that every step waits for the same number.
  auto start_copies = [&](i32 step) {
    if (step < steps) {
      Stage<WEIGHTS> &stage = stages[step % STAGES];
      input.start(stage.input, step, depth);
      weights.start(stage.weights, step, depth);
    }
    close_copy_group();
  };

#pragma unroll 1
  for (i32 step = 0; step < STAGES - 1; step++) start_copies(step);
#pragma unroll 1
  for (i32 step = 0; step < steps; step++) {
    wait_for_copies<STAGES - 2>();
    // Two things at once: this step's copies of all threads are now visible to all, and all have finished reading the
    // stage of the previous step, which the next copies overwrite.
    __syncthreads();
    start_copies(step + STAGES - 1);
    multiply(sum, stages[step % STAGES], weights);
  }
}
