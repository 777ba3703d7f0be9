// Sorts the rows of a batch by their expert, for the grouped matrix product.
//
// Each expert's rows keep their order and are padded to whole blocks of BLOCK_ROWS. A block of threads takes one
// expert, and every block counts the rows of all: the counts say where an expert's rows start. Rows that no expert here
// takes come first, as those of expert -1.
//
// Set by the host, which also checks them:
//   EXPERTS       experts, up to 1024
//   BLOCK_ROWS    rows of a block of the product
#include "common.cuh"

enum : int {
  WARPS = 8,
  THREADS = WARPS * 32,
  GROUPS = EXPERTS + 1,
  NO_ROW = 0x7fffffff,
};

// The group of a row: one more than its expert, 0 where there is no such expert.
DEVICE i32 group_of(i32 expert) { return (u32)expert < (u32)EXPERTS ? expert + 1 : 0; }

DEVICE i32 blocks_for(i32 rows) { return (rows + BLOCK_ROWS - 1) / BLOCK_ROWS; }

// expert_of_row   [rows]
// sorted_rows     [row blocks, BLOCK_ROWS], row numbers; NO_ROW is padding
// block_expert    [row blocks]
// used_rows       one number: entries of sorted_rows in use
//
// Grid (GROUPS).
extern "C" __global__ void __launch_bounds__(THREADS)
group_rows(const i32 *expert_of_row, i32 rows, i32 *sorted_rows, i32 *block_expert, i32 *used_rows) {
  __shared__ i32 count[GROUPS];
  __shared__ i32 found_by_warp[WARPS];
  __shared__ i32 blocks_by_warp[WARPS];
  const i32 group = blockIdx.x;
  const i32 warp = threadIdx.x / 32;
  const i32 lane = threadIdx.x % 32;
  for (i32 g = threadIdx.x; g < GROUPS; g += THREADS) count[g] = 0;
  __syncthreads();

  // A warp looks at neighbouring rows, so that rows found by later warps come later.
  const i32 share = (rows + THREADS - 1) / THREADS * 32;
  const i32 begin = warp * share;
  const i32 end = min(begin + share, rows);
  i32 found = 0;
  for (i32 start = begin; start < end; start += 32) {
    i32 own = -1;
    if (start + lane < end) {
      own = group_of(expert_of_row[start + lane]);
      // Counts do not depend on the order in which they grow.
      atomicAdd(&count[own], 1);
    }
    found += __popc(__ballot_sync(FULL_WARP, own == group));
  }
  if (lane == 0) found_by_warp[warp] = found;
  __syncthreads();

  i32 blocks = 0;
  for (i32 g = threadIdx.x; g < group; g += THREADS) blocks += blocks_for(count[g]);
  blocks = warp_sum(blocks);
  if (lane == 0) blocks_by_warp[warp] = blocks;
  __syncthreads();
  i32 first_block = 0;
#pragma unroll
  for (int w = 0; w < WARPS; w++) first_block += blocks_by_warp[w];

  i32 place = first_block * BLOCK_ROWS;
  for (i32 w = 0; w < warp; w++) place += found_by_warp[w];
  for (i32 start = begin; start < end; start += 32) {
    const bool is_own = start + lane < end && group_of(expert_of_row[start + lane]) == group;
    const u32 owners = __ballot_sync(FULL_WARP, is_own);
    if (is_own) sorted_rows[place + __popc(owners & ((1u << lane) - 1))] = start + lane;
    place += __popc(owners);
  }
  const i32 end_block = first_block + blocks_for(count[group]);
  for (i32 i = first_block * BLOCK_ROWS + count[group] + threadIdx.x; i < end_block * BLOCK_ROWS; i += THREADS)
    sorted_rows[i] = NO_ROW;
  for (i32 block = first_block + threadIdx.x; block < end_block; block += THREADS) block_expert[block] = group - 1;
  if (group == GROUPS - 1 && threadIdx.x == 0) *used_rows = end_block * BLOCK_ROWS;
}
