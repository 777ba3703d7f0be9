// Attention of one query token per request over a paged KV pool, by tensor cores: for query heads that are many enough
// per key head to be rows of a matrix. The context is split across blocks as in paged_decode_attention.cu, and
// merge_decode_splits.cu joins the parts.
//
// A block takes one request, up to sixteen query heads of one key head, and one run of SPLIT_TOKENS tokens. Its warps
// share the keys of a step among them, sixteen each, and every warp has a softmax of its own; they are joined at the
// end, in the order of the warps.
//
// Set by the host beside the sizes of attention.cuh:
//   SPLIT_TOKENS   tokens a block covers
//   SHARED_BYTES   size of Shared
#include "attention.cuh"

enum : int {
  // Wide heads leave few registers beside the accumulator, and fill shared memory sooner.
  WARPS = HEAD_DIM > 128 ? 2 : 4,
  THREADS = WARPS * 32,
  ROWS = 16,
  KEYS = WARPS * 16,
  STAGES = HEAD_DIM > 64 ? 2 : 4,
  QUERY_IN_REGISTERS = HEAD_DIM <= 128,
  // Blocks that the heads of a group take.
  HEAD_BLOCKS = (GROUP + ROWS - 1) / ROWS,
  PASSES = KEYS * CHUNKS / THREADS,
  // Eight more than a row has, so that rows start in different banks.
  RESULT_STRIDE = HEAD_DIM + 8,
};
static_assert(KEYS * CHUNKS % THREADS == 0, "every thread copies as many chunks");

struct Stage {
  bf16 keys[KEYS * HEAD_DIM];
  bf16 values[KEYS * HEAD_DIM];
};

struct Shared {
  union {
    Stage stages[STAGES];
    // What the warps have found, once all keys are done.
    float result[WARPS][ROWS][RESULT_STRIDE];
  };
  bf16 query[ROWS * HEAD_DIM];
  // Where the keys of a step start in the pools, -1 past the last.
  i64 offsets[STAGES][KEYS];
  float max[WARPS][ROWS];
  float sum[WARPS][ROWS];
};
static_assert(sizeof(Shared) == SHARED_BYTES, "the host allocates Shared");

// The arguments are those of paged_decode_attention.cu.
//
// Grid (requests, KV_HEADS * HEAD_BLOCKS, splits).
extern "C" __global__ void __launch_bounds__(THREADS)
paged_decode_attention(const bf16 *query, const bf16 *keys, const bf16 *values, const i32 *block_table,
                       const i32 *slots, const i32 *context, bf16 *output, float *lse, float *split_output,
                       float *split_lse, const float *sinks, i64 page_stride, i64 token_stride, i64 head_stride,
                       i32 table_width, i32 splits, float scale, float softcap) {
  extern __shared__ __align__(16) unsigned char memory[];
  Shared &shared = *(Shared *)memory;

  const i64 request = blockIdx.x;
  const i32 kv_head = blockIdx.y / HEAD_BLOCKS;
  const i32 first_of_group = blockIdx.y % HEAD_BLOCKS * ROWS;
  const i32 heads = min(GROUP - first_of_group, ROWS);
  const i64 first_row = request * QUERY_HEADS + kv_head * GROUP + first_of_group;
  const i32 split = blockIdx.z;
  const i32 warp = threadIdx.x / 32;
  const i32 lane = threadIdx.x % 32;
  const i32 slot = slots[request];
  const i32 length = slot < 0 ? 0 : context[request];
  const i32 end = min(length, (split + 1) * SPLIT_TOKENS);
  // Pages before the window may be another's by now: they are not looked up.
  const i32 begin = max(split * SPLIT_TOKENS, WINDOW ? length - WINDOW : 0);
  const i32 steps = (end - begin + KEYS - 1) / KEYS;

  // The queries, zeros where there is no head.
  for (i32 i = threadIdx.x; i < ROWS * CHUNKS && steps > 0; i += THREADS) {
    const i32 row = i / CHUNKS, chunk = i % CHUNKS;
    const bool exists = row < heads;
    const i64 from = exists ? (first_row + row) * HEAD_DIM + chunk * 8 : 0;
    copy16_async(&shared.query[place(row, chunk)], query + from, exists);
  }

  // Of padding this is no address, and nothing is read from it.
  const i32 *pages = block_table + (i64)slot * table_width;
  const i64 head_offset = kv_head * head_stride;
  // Looks up where the keys of a step are.
  const auto find_keys = [&](i32 step) {
    const i32 key = begin + step * KEYS + threadIdx.x;
    if (threadIdx.x < KEYS) {
      // Rows past the context may hold anything, NaN included: they are not read, so zero times NaN cannot arise.
      shared.offsets[step % STAGES][threadIdx.x] =
          key < end ? token_offset(pages, key, page_stride, token_stride) + head_offset : -1;
    }
  };
  // Starts the copies of a step. Past the last step the group is empty, so that every step waits for the same number.
  const auto start_copies = [&](i32 step) {
    if (step < steps) {
      Stage &stage = shared.stages[step % STAGES];
#pragma unroll
      for (int pass = 0; pass < PASSES; pass++) {
        const i32 i = pass * THREADS + threadIdx.x;
        const i32 row = i / CHUNKS, chunk = i % CHUNKS;
        const i64 offset = shared.offsets[step % STAGES][row];
        const bool visible = offset >= 0;
        const i64 from = visible ? offset + chunk * 8 : 0;
        copy16_async(&stage.keys[place(row, chunk)], keys + from, visible);
        copy16_async(&stage.values[place(row, chunk)], values + from, visible);
      }
    }
    close_copy_group();
  };

  // A lane holds, of each 16x8 tile of scores or results, two neighbouring columns of rows lane/4 and lane/4 + 8.
  const float factor = score_factor(scale, softcap);
  float max[2] = {-infinity(), -infinity()}, sum[2] = {0.0f, 0.0f};
  float value[HEAD_DIM / 8][4] = {};

#pragma unroll
  for (int step = 0; step < STAGES; step++) find_keys(step);
  __syncthreads();
#pragma unroll
  for (int step = 0; step < STAGES - 1; step++) start_copies(step);

  u32 query_tiles[QUERY_IN_REGISTERS ? HEAD_DIM / 16 : 1][4];
  const auto load_query = [&](u32 (&to)[4], i32 k) {
    load_matrix_x4(to, &shared.query[place(lane % 16, k * 2 + lane / 16)]);
  };

#pragma unroll 1
  for (i32 step = 0; step < steps; step++) {
    wait_for_copies<STAGES - 2>();
    // This step's copies of all threads are now visible to all; so is where the keys of later steps are; and all have
    // finished reading what the next copies and the next look-up overwrite.
    __syncthreads();
    start_copies(step + STAGES - 1);
    find_keys(step + STAGES);
    if (QUERY_IN_REGISTERS && step == 0) {
#pragma unroll
      for (int k = 0; k < HEAD_DIM / 16; k++) load_query(query_tiles[QUERY_IN_REGISTERS ? k : 0], k);
    }
    const i32 first_key = begin + step * KEYS + warp * 16;
    if (first_key >= end) continue;

    const Stage &stage = shared.stages[step % STAGES];
    float score[2][4] = {};
#pragma unroll
    for (int k = 0; k < HEAD_DIM / 16; k++) {
      u32(&a)[4] = query_tiles[QUERY_IN_REGISTERS ? k : 0];
      if (!QUERY_IN_REGISTERS) load_query(a, k);
      u32 b[4];
      load_matrix_x4(b, &stage.keys[place(warp * 16 + lane % 8 + lane / 16 * 8, k * 2 + lane / 8 % 2)]);
      mma_16x8x16(score[0], a, b[0], b[1]);
      mma_16x8x16(score[1], a, b[2], b[3]);
    }

#pragma unroll
    for (int half = 0; half < 2; half++) {
      float new_max = max[half];
#pragma unroll
      for (int j = 0; j < 2; j++)
#pragma unroll
        for (int t = 2 * half; t < 2 * half + 2; t++) {
          const bool visible = first_key + j * 8 + lane % 4 * 2 + t % 2 < end;
          score[j][t] = visible ? finished_score(score[j][t] * factor, softcap) : -infinity();
          new_max = fmaxf(new_max, score[j][t]);
        }
      // The four lanes that hold a row.
      new_max = fmaxf(new_max, __shfl_xor_sync(FULL_WARP, new_max, 1));
      new_max = fmaxf(new_max, __shfl_xor_sync(FULL_WARP, new_max, 2));
      // The warp's first key is visible, so this is not minus infinity.
      const float keep = exp2_approx(max[half] - new_max);
      max[half] = new_max;
      sum[half] *= keep;
#pragma unroll
      for (int i = 0; i < HEAD_DIM / 8; i++) {
        value[i][2 * half] *= keep;
        value[i][2 * half + 1] *= keep;
      }
#pragma unroll
      for (int j = 0; j < 2; j++)
#pragma unroll
        for (int t = 2 * half; t < 2 * half + 2; t++) {
          score[j][t] = exp2_approx(score[j][t] - new_max);
          sum[half] += score[j][t];
        }
    }

    // The scores of the two tiles, as they lie in the registers, are the rows of the next product.
    const u32 a[4] = {to_bf16_pair(score[0][0], score[0][1]), to_bf16_pair(score[0][2], score[0][3]),
                      to_bf16_pair(score[1][0], score[1][1]), to_bf16_pair(score[1][2], score[1][3])};
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 16; i++) {
      u32 b[4];
      load_matrix_x4_transposed(b, &stage.values[place(warp * 16 + lane % 16, i * 2 + lane / 16)]);
      mma_16x8x16(value[2 * i], a, b[0], b[1]);
      mma_16x8x16(value[2 * i + 1], a, b[2], b[3]);
    }
  }

  // The results take the place of the stages.
  __syncthreads();
#pragma unroll
  for (int half = 0; half < 2; half++) {
    sum[half] += __shfl_xor_sync(FULL_WARP, sum[half], 1);
    sum[half] += __shfl_xor_sync(FULL_WARP, sum[half], 2);
    const i32 row = half * 8 + lane / 4;
    if (lane % 4 == 0) {
      shared.max[warp][row] = max[half];
      shared.sum[warp][row] = sum[half];
    }
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 8; i++)
      *(float2 *)&shared.result[warp][row][i * 8 + lane % 4 * 2] =
          make_float2(value[i][2 * half], value[i][2 * half + 1]);
  }
  __syncthreads();

  for (i32 h = warp; h < heads; h += WARPS) {
    float max_of_all = -infinity();
#pragma unroll
    for (int w = 0; w < WARPS; w++) max_of_all = fmaxf(max_of_all, shared.max[w][h]);
    // Where nothing is visible the weights are NaN, and not used.
    const bool empty = max_of_all == -infinity();
    float weight[WARPS], sum_of_all = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      weight[w] = exp2_approx(shared.max[w][h] - max_of_all);
      sum_of_all = fmaf(weight[w], shared.sum[w][h], sum_of_all);
    }
    // A sink counts once: where splits are merged, it is for the merge to add.
    const float sink = splits == 1 ? sink_weight(sinks, kv_head * GROUP + first_of_group + h, max_of_all) : 0.0f;
    const float share = empty ? 0.0f : 1.0f / (sum_of_all + sink);
    const float denominator = empty ? -infinity() : LN_2 * (max_of_all + log2_approx(sum_of_all));
    const i64 row = first_row + h;
    const i64 part = row * splits + split;
    if (lane == 0) (splits == 1 ? lse : split_lse)[part] = denominator;
    for (i32 d = lane; d < HEAD_DIM; d += 32) {
      float result = 0.0f;
#pragma unroll
      for (int w = 0; w < WARPS; w++) result = fmaf(weight[w], shared.result[w][h][d], result);
      result = empty ? 0.0f : result * share;
      if (splits == 1)
        output[row * HEAD_DIM + d] = to_bf16(result);
      else
        split_output[part * HEAD_DIM + d] = result;
    }
  }
}
