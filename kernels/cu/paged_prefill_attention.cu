// Attention of runs of query tokens over a paged KV pool: prompts, chunks of prompts and single tokens in one batch.
//
// The last of a request's query tokens is the last of its context, and a token sees itself and what is before it. The
// query heads that share a key head see the same keys, so a block packs them: its rows are (token, head of the group)
// pairs of one request and one key head, sixteen to a warp. It works through the keys in steps that are counted from
// the start of the context, and a step without a visible key changes no bit of a row: a row's result depends neither on
// what it is batched with nor on the chunk it came in.
//
// Set by the host beside the sizes of attention.cuh:
//   TREE           1 if a request's query tokens are a tree, of which each sees what its mask says
//   SHARED_BYTES   size of Shared
#include "attention.cuh"

enum : int {
  WARPS = 4,
  THREADS = WARPS * 32,
  ROWS = WARPS * 16,
  // Keys of a step. Wide heads leave few registers beside the accumulator.
  KEYS = HEAD_DIM > 128 ? 32 : 64,
  QUERY_IN_REGISTERS = HEAD_DIM <= 128,
  // A step's keys are copied as chunks, one thread each.
  PASSES = (KEYS * CHUNKS + THREADS - 1) / THREADS,
};

struct Shared {
  bf16 query[ROWS * HEAD_DIM];
  bf16 keys[2][KEYS * HEAD_DIM];
  bf16 values[2][KEYS * HEAD_DIM];
  // Where the keys of a step start in the pools, -1 for those that no row of the block sees.
  i64 offsets[2][KEYS];
};
static_assert(sizeof(Shared) == SHARED_BYTES, "the host allocates Shared");

// The rows of a block.
struct Tile {
  i32 request;
  // Of the request: first query token in the batch, number of them, first packed row of the block.
  i32 start;
  i32 tokens;
  i32 first_row;
};

// Query tokens of a request. Nothing outside the batch is ever written, whatever the starts are.
DEVICE i32 clamped_start(const i32 *query_starts, i32 request, i32 tokens) {
  return min(max(query_starts[request], 0), tokens);
}

// Finds the rows of a block, by a warp that takes 32 requests at a time; or says how many tiles there are, where the
// block's number is beyond the last. The tiles of a request go to blocks backwards: the last see the most keys, and
// what takes longest starts first.
DEVICE bool find_tile(Tile &tile, i32 &tiles, const i32 *query_starts, i32 requests, i32 tokens, i32 number) {
  const i32 lane = threadIdx.x % 32;
  tiles = 0;
  for (i32 first = 0; first < requests; first += 32) {
    const i32 request = first + lane;
    i32 start = 0, count = 0;
    if (request < requests) {
      start = clamped_start(query_starts, request, tokens);
      count = max(clamped_start(query_starts, request + 1, tokens) - start, 0);
    }
    const i32 own = (count * GROUP + ROWS - 1) / ROWS;
    i32 until = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const i32 before = __shfl_up_sync(FULL_WARP, until, step);
      if (lane >= step) until += before;
    }
    const u32 beyond = __ballot_sync(FULL_WARP, number < tiles + until);
    if (beyond != 0) {
      const i32 holder = __ffs(beyond) - 1;
      tile.request = first + holder;
      tile.start = __shfl_sync(FULL_WARP, start, holder);
      tile.tokens = __shfl_sync(FULL_WARP, count, holder);
      const i32 last = tiles + __shfl_sync(FULL_WARP, until, holder) - 1;
      tile.first_row = (last - number) * ROWS;
      return true;
    }
    tiles += __shfl_sync(FULL_WARP, until, 31);
  }
  return false;
}

// query           [tokens, QUERY_HEADS, HEAD_DIM], tokens query_stride elements apart
// keys, values    pools, addressed by the strides (in elements)
// block_table     [slots, table_width], page numbers; only the entries that visible keys need are read
// slots           [requests], the block table's row for a request; -1 marks padding, whose tokens get zeros
// query_starts    [requests + 1], ascending: each request's first query token, and the end of the last request's.
//                 Tokens from there on are padding and get zeros
// context         [requests], tokens of the request, its query tokens the last of them
// output          [tokens, QUERY_HEADS, HEAD_DIM]
// lse             [tokens, QUERY_HEADS], natural logarithm of the softmax denominator without a sink; may be null
// sinks           [QUERY_HEADS], with SINKS
// tree            [tokens], with TREE: bit i is set where a token sees the i-th query token of its request. Every token
//                 sees all that is before the query tokens, and none sees a query token past the 64th
// softcap         with SOFTCAP, what the absolute value of a score stays below
//
// Grid (tokens * GROUP / ROWS + requests + 1, KV_HEADS): never fewer tiles than there may be, and a block to spare.
extern "C" __global__ void __launch_bounds__(THREADS)
paged_prefill_attention(const bf16 *query, const bf16 *keys, const bf16 *values, const i32 *block_table,
                        const i32 *slots, const i32 *query_starts, const i32 *context, bf16 *output, float *lse,
                        const float *sinks, const u64 *tree, i64 query_stride, i64 page_stride, i64 token_stride, i64 head_stride,
                        i32 table_width, i32 requests, i32 tokens, float scale, float softcap) {
  extern __shared__ __align__(16) unsigned char memory[];
  Shared &shared = *(Shared *)memory;

  const i32 kv_head = blockIdx.y;
  const i32 first_head = kv_head * GROUP;
  Tile tile;
  i32 tiles;
  if (!find_tile(tile, tiles, query_starts, requests, tokens, blockIdx.x)) {
    // The blocks to spare clear the padding.
    const i32 spare = gridDim.x - tiles;
    const i32 end = clamped_start(query_starts, requests, tokens);
    for (i32 token = end + blockIdx.x - tiles; token < tokens; token += spare) {
      const i64 row = (i64)token * QUERY_HEADS + first_head;
      for (i32 i = threadIdx.x; i < GROUP * CHUNKS; i += THREADS)
        *(uint4 *)(output + row * HEAD_DIM + i * 8) = make_uint4(0, 0, 0, 0);
      if (lse)
        for (i32 i = threadIdx.x; i < GROUP; i += THREADS) lse[row + i] = -infinity();
    }
    return;
  }

  const i32 warp = threadIdx.x / 32;
  const i32 lane = threadIdx.x % 32;
  const i32 slot = slots[tile.request];
  const i32 first_position = (slot < 0 ? 0 : context[tile.request]) - tile.tokens;
  const i32 rows = tile.tokens * GROUP;
  // Where the last token that a row may see stands in its context; rows past the last are as good as that.
  const auto position = [&](i32 row) {
    return first_position + (TREE ? tile.tokens - 1 : min(row, rows - 1) / GROUP);
  };

  // The keys that the block's rows see, and the steps that have them.
  const i32 end_key = position(tile.first_row + ROWS - 1) + 1;
  const i32 end_step = (end_key + KEYS - 1) / KEYS;
  const i32 first_key_seen = WINDOW ? max(position(tile.first_row) + 1 - WINDOW, 0) : 0;
  const i32 first_step = first_key_seen / KEYS;

  // The queries, zeros where there is no row.
  for (i32 i = threadIdx.x; i < ROWS * CHUNKS && first_step < end_step; i += THREADS) {
    const i32 r = i / CHUNKS, chunk = i % CHUNKS;
    const i32 row = tile.first_row + r;
    const bool exists = row < rows;
    const i64 from = (tile.start + row / GROUP) * query_stride + (first_head + row % GROUP) * HEAD_DIM + chunk * 8;
    copy16_async(&shared.query[place(r, chunk)], query + from, exists);
  }

  // Of padding this is no address, and nothing is read from it.
  const i32 *pages = block_table + (i64)slot * table_width;
  const i64 head_offset = kv_head * head_stride;
  // Looks up where the keys of a step are.
  const auto find_keys = [&](i32 step) {
    const i32 key = step * KEYS + threadIdx.x;
    if (threadIdx.x < KEYS) {
      // What no row sees is not read: it may be NaN, and zero times NaN is NaN. Its page may be another's by now.
      shared.offsets[step % 2][threadIdx.x] =
          key >= first_key_seen && key < end_key
              ? token_offset(pages, key, page_stride, token_stride) + head_offset
              : -1;
    }
  };
  // Starts the copies of a step. Past the last step the group is empty.
  const auto start_copies = [&](i32 step) {
    if (step < end_step) {
#pragma unroll
      for (int pass = 0; pass < PASSES; pass++) {
        const i32 i = pass * THREADS + threadIdx.x;
        if (KEYS * CHUNKS % THREADS != 0 && i >= KEYS * CHUNKS) break;
        const i32 row = i / CHUNKS, chunk = i % CHUNKS;
        const i64 offset = shared.offsets[step % 2][row];
        const bool visible = offset >= 0;
        const i64 from = visible ? offset + chunk * 8 : 0;
        copy16_async(&shared.keys[step % 2][place(row, chunk)], keys + from, visible);
        copy16_async(&shared.values[step % 2][place(row, chunk)], values + from, visible);
      }
    }
    close_copy_group();
  };

  // A lane holds, of each 16x8 tile of scores or results, two neighbouring columns of rows lane/4 and lane/4 + 8.
  const i32 warp_row = tile.first_row + warp * 16;
  const i32 first_visible_end = position(warp_row) + 1;
  // A warp without rows sees nothing.
  const i32 last_visible_end = warp_row < rows ? position(warp_row + 15) + 1 : 0;
  i32 visible_end[2];
#pragma unroll
  for (int half = 0; half < 2; half++) visible_end[half] = position(warp_row + half * 8 + lane / 4) + 1;

  u64 seen[2] = {0, 0};
#pragma unroll
  for (int half = 0; half < 2 && TREE; half++) {
    const i32 row = warp_row + half * 8 + lane / 4;
    if (row < rows) seen[half] = tree[tile.start + row / GROUP];
  }

  const float factor = score_factor(scale, softcap);
  float max[2] = {-infinity(), -infinity()}, sum[2] = {0.0f, 0.0f};
  float value[HEAD_DIM / 8][4] = {};

  find_keys(first_step);
  find_keys(first_step + 1);
  __syncthreads();
  start_copies(first_step);

  u32 query_tiles[QUERY_IN_REGISTERS ? HEAD_DIM / 16 : 1][4];
  const auto load_query = [&](u32 (&to)[4], i32 k) {
    load_matrix_x4(to, &shared.query[place(warp * 16 + lane % 16, k * 2 + lane / 16)]);
  };

#pragma unroll 1
  for (i32 step = first_step; step < end_step; step++) {
    wait_for_copies<0>();
    // This step's copies of all threads are now visible to all; so is where the next step's keys are; and all have
    // finished reading what the next copies and the next look-up overwrite.
    __syncthreads();
    start_copies(step + 1);
    find_keys(step + 2);
    if (QUERY_IN_REGISTERS && step == first_step) {
#pragma unroll
      for (int k = 0; k < HEAD_DIM / 16; k++) load_query(query_tiles[QUERY_IN_REGISTERS ? k : 0], k);
    }
    const i32 first_key = step * KEYS;
    if (first_key >= last_visible_end) continue;
    if (WINDOW && first_key + KEYS <= first_visible_end - WINDOW) continue;

    float score[KEYS / 8][4] = {};
    const bf16 *step_keys = shared.keys[step % 2];
#pragma unroll
    for (int k = 0; k < HEAD_DIM / 16; k++) {
      u32(&a)[4] = query_tiles[QUERY_IN_REGISTERS ? k : 0];
      if (!QUERY_IN_REGISTERS) load_query(a, k);
      // One load brings two neighbouring 16x8 tiles of keys: lanes 0-15 address the first, 16-31 the second.
#pragma unroll
      for (int j = 0; j < KEYS / 16; j++) {
        u32 b[4];
        load_matrix_x4(b, &step_keys[place(j * 16 + lane % 8 + lane / 16 * 8, k * 2 + lane / 8 % 2)]);
        mma_16x8x16(score[2 * j], a, b[0], b[1]);
        mma_16x8x16(score[2 * j + 1], a, b[2], b[3]);
      }
    }

    const bool all_visible =
        first_key + KEYS <= (TREE ? first_position : first_visible_end) &&
        (!WINDOW || first_key >= last_visible_end - WINDOW);
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
      for (int t = 0; t < 4; t++) {
        score[j][t] = finished_score(score[j][t] * factor, softcap);
        const i32 key = first_key + j * 8 + lane % 4 * 2 + t % 2;
        bool visible = key < visible_end[t / 2] && (!WINDOW || key >= visible_end[t / 2] - WINDOW);
        const i32 draft = key - first_position;
        if (TREE && draft >= 0) visible &= draft < 64 && (seen[t / 2] >> draft & 1) != 0;
        if (!all_visible && !visible) score[j][t] = -infinity();
      }

#pragma unroll
    for (int half = 0; half < 2; half++) {
      float new_max = max[half];
#pragma unroll
      for (int j = 0; j < KEYS / 8; j++)
        new_max = fmaxf(new_max, fmaxf(score[j][2 * half], score[j][2 * half + 1]));
      // The four lanes that hold a row.
      new_max = fmaxf(new_max, __shfl_xor_sync(FULL_WARP, new_max, 1));
      new_max = fmaxf(new_max, __shfl_xor_sync(FULL_WARP, new_max, 2));
      const float reference = finite_reference(new_max);
      const float keep = exp2_approx(max[half] - reference);
      max[half] = new_max;
      sum[half] *= keep;
#pragma unroll
      for (int i = 0; i < HEAD_DIM / 8; i++) {
        value[i][2 * half] *= keep;
        value[i][2 * half + 1] *= keep;
      }
#pragma unroll
      for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
        for (int t = 2 * half; t < 2 * half + 2; t++) {
          score[j][t] = exp2_approx(score[j][t] - reference);
          sum[half] += score[j][t];
        }
    }

    // The scores of two neighbouring tiles, as they lie in the registers, are the rows of the next product.
    const bf16 *step_values = shared.values[step % 2];
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++) {
      const float(&low)[4] = score[2 * k], (&high)[4] = score[2 * k + 1];
      const u32 a[4] = {to_bf16_pair(low[0], low[1]), to_bf16_pair(low[2], low[3]), to_bf16_pair(high[0], high[1]),
                        to_bf16_pair(high[2], high[3])};
#pragma unroll
      for (int i = 0; i < HEAD_DIM / 16; i++) {
        u32 b[4];
        load_matrix_x4_transposed(b, &step_values[place(k * 16 + lane % 16, i * 2 + lane / 16)]);
        mma_16x8x16(value[2 * i], a, b[0], b[1]);
        mma_16x8x16(value[2 * i + 1], a, b[2], b[3]);
      }
    }
  }

#pragma unroll
  for (int half = 0; half < 2; half++) {
    sum[half] += __shfl_xor_sync(FULL_WARP, sum[half], 1);
    sum[half] += __shfl_xor_sync(FULL_WARP, sum[half], 2);
    const i32 row = warp_row + half * 8 + lane / 4;
    if (row >= rows) continue;
    const bool empty = max[half] == -infinity();
    const i32 head = first_head + row % GROUP;
    const float share = empty ? 0.0f : 1.0f / (sum[half] + sink_weight(sinks, head, max[half]));
    const i64 to = (i64)(tile.start + row / GROUP) * QUERY_HEADS + head;
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 8; i++)
      *(u32 *)(output + to * HEAD_DIM + i * 8 + lane % 4 * 2) =
          to_bf16_pair(value[i][2 * half] * share, value[i][2 * half + 1] * share);
    if (lse && lane % 4 == 0)
      // Minus infinity where nothing is visible, since the sum is zero.
      lse[to] = LN_2 * (max[half] + log2_approx(sum[half]));
  }
}
