// Attention of one query token per request over a paged KV pool, with the context split across blocks. For few query
// heads per key head; paged_decode_attention_tensor.cu is for many.
//
// A block takes one request, the query heads that share a key head, and one run of SPLIT_TOKENS tokens. Where a request
// spans several splits, each leaves a partial result and merge_decode_splits.cu joins them in split order, so
// the sum does not depend on scheduling. The split length is fixed at compile time, not chosen from the batch: a
// request's result is then bit-identical whatever it is batched with.
//
// Set by the host beside the sizes of attention.cuh, HEAD_DIM being 32, 64, 128 or 256:
//   SPLIT_TOKENS   tokens a block covers
#include "attention.cuh"

enum : int {
  // A block handles the heads of a group.
  HEADS = GROUP,
  WARPS = 4,
  THREADS = WARPS * 32,
  // A lane holds eight elements of a head, one 16-byte load.
  LANES_PER_TOKEN = HEAD_DIM / 8,
  TOKENS_PER_WARP = 32 / LANES_PER_TOKEN,
  TOKENS_PER_STEP = WARPS * TOKENS_PER_WARP,
  // Tokens a lane has in flight: their loads overlap, and one rescale of the accumulator serves them all.
  UNROLL = 2,
  // Tokens between two look-ups, of which each warp has 32: one for every lane.
  TOKENS_PER_LOOKUP = LANES_PER_TOKEN * TOKENS_PER_STEP,
};
static_assert(LANES_PER_TOKEN % UNROLL == 0, "a look-up is for whole steps");

// Where an element of a head lies in a row of shared memory to which lanes write eight neighbours, four at a time: turned
// so that the lanes of a pass meet different banks.
DEVICE i32 turned(i32 d) {
  const i32 chunk = d / 4;
  return (chunk ^ chunk / 8) * 4 + d % 4;
}

// A softmax-weighted sum in progress: scores are in units of log2, `sum` and `value` are relative to 2^max.
struct Running {
  float max[HEADS];
  float sum[HEADS];
  float value[HEADS][8];
};

// Adds UNROLL tokens to the running sums. A token that is not visible contributes exactly nothing.
DEVICE void accumulate(Running &running, const float (&query)[HEADS][8], const uint4 (&keys)[UNROLL],
                       const uint4 (&values)[UNROLL], const bool (&visible)[UNROLL], float softcap) {
  float score[UNROLL][HEADS];
#pragma unroll
  for (int u = 0; u < UNROLL; u++) {
    float key[8];
    unpack8(key, keys[u]);
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
      float dot = 0.0f;
#pragma unroll
      for (int i = 0; i < 8; i++) dot = fmaf(query[h][i], key[i], dot);
#pragma unroll
      for (int lanes = LANES_PER_TOKEN / 2; lanes > 0; lanes >>= 1) dot += __shfl_xor_sync(FULL_WARP, dot, lanes);
      score[u][h] = visible[u] ? finished_score(dot, softcap) : -infinity();
    }
  }
#pragma unroll
  for (int h = 0; h < HEADS; h++) {
    float max = running.max[h];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) max = fmaxf(max, score[u][h]);
    const float reference = finite_reference(max);
    const float keep = exp2_approx(running.max[h] - reference);
    running.max[h] = max;
    running.sum[h] *= keep;
#pragma unroll
    for (int i = 0; i < 8; i++) running.value[h][i] *= keep;
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      score[u][h] = exp2_approx(score[u][h] - reference);
      running.sum[h] += score[u][h];
    }
  }
#pragma unroll
  for (int u = 0; u < UNROLL; u++) {
    float value[8];
    unpack8(value, values[u]);
#pragma unroll
    for (int h = 0; h < HEADS; h++)
#pragma unroll
      for (int i = 0; i < 8; i++) running.value[h][i] = fmaf(score[u][h], value[i], running.value[h][i]);
  }
}

// Joins the sums of lanes that hold the same elements for different tokens of a warp.
DEVICE void join_lanes(Running &running) {
#pragma unroll
  for (int lanes = LANES_PER_TOKEN; lanes < 32; lanes <<= 1)
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
      const float other = __shfl_xor_sync(FULL_WARP, running.max[h], lanes);
      const float max = fmaxf(running.max[h], other);
      const float reference = finite_reference(max);
      const float keep = exp2_approx(running.max[h] - reference);
      running.max[h] = max;
      running.sum[h] *= keep;
      running.sum[h] += __shfl_xor_sync(FULL_WARP, running.sum[h], lanes);
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const float scaled = running.value[h][i] * keep;
        running.value[h][i] = scaled + __shfl_xor_sync(FULL_WARP, scaled, lanes);
      }
    }
}

// query, output   [requests, QUERY_HEADS, HEAD_DIM]
// keys, values    pools, addressed by the strides (in elements)
// block_table     [slots, table_width], page numbers; only the entries a context needs are read
// slots           [requests], the block table's row for a request; -1 marks a padding row, which gets zeros
// context         [requests], tokens visible to the query, which is the last of them
// lse             [requests, QUERY_HEADS], natural logarithm of the softmax denominator without a sink
// sinks           [QUERY_HEADS], with SINKS
// softcap         with SOFTCAP, what the absolute value of a score stays below
// split_output, split_lse   [requests, QUERY_HEADS, splits, HEAD_DIM] and [.., splits]; used when splits > 1
//
// Grid (requests, KV_HEADS, splits).
extern "C" __global__ void __launch_bounds__(THREADS)
paged_decode_attention(const bf16 *query, const bf16 *keys, const bf16 *values, const i32 *block_table,
                       const i32 *slots, const i32 *context, bf16 *output, float *lse, float *split_output,
                       float *split_lse, const float *sinks, i64 page_stride, i64 token_stride, i64 head_stride,
                       i32 table_width, i32 splits, float scale, float softcap) {
  __shared__ __align__(16) bf16 shared_query[HEADS * HEAD_DIM];
  __shared__ float warp_max[WARPS][HEADS];
  __shared__ float warp_sum[WARPS][HEADS];
  __shared__ __align__(16) float warp_value[WARPS][HEADS][HEAD_DIM];

  const i64 request = blockIdx.x;
  const i32 first_head = blockIdx.y * HEADS;
  const i32 split = blockIdx.z;
  const i32 warp = threadIdx.x / 32;
  const i32 lane = threadIdx.x % 32;
  const i32 element = lane % LANES_PER_TOKEN * 8;
  // What all lanes need is read by one.
  i32 slot = -1, length = 0;
  if (lane == 0) {
    slot = slots[request];
    length = slot < 0 ? 0 : context[request];
  }
  slot = __shfl_sync(FULL_WARP, slot, 0);
  length = __shfl_sync(FULL_WARP, length, 0);
  const i32 end = min(length, (split + 1) * SPLIT_TOKENS);
  // Pages before the window may be another's by now: they are not looked up.
  const i32 begin = max(split * SPLIT_TOKENS, WINDOW ? length - WINDOW : 0);

  // Of padding this is no address, and nothing is read from it.
  const i32 *pages = block_table + (i64)slot * table_width;
  // The page of the token for which this lane looks it up: the lanes of a warp are for those of its tokens that come
  // next, step by step.
  const auto look_up = [&](i32 first) {
    const i32 token =
        first + lane / TOKENS_PER_WARP * TOKENS_PER_STEP + warp * TOKENS_PER_WARP + lane % TOKENS_PER_WARP;
    return token < end ? pages[token >> PAGE_SHIFT] : 0;
  };
  // Looked up a round ahead: keys and values do not wait for it.
  i32 page_of_lane = 0, next_page_of_lane = look_up(begin);

  const i64 first_row = request * QUERY_HEADS + first_head;
  for (i32 i = threadIdx.x; i < HEADS * LANES_PER_TOKEN; i += THREADS)
    ((uint4 *)shared_query)[i] = ((const uint4 *)(query + first_row * HEAD_DIM))[i];
  __syncthreads();
  const float factor = score_factor(scale, softcap);
  float scaled_query[HEADS][8];
  Running running;
#pragma unroll
  for (int h = 0; h < HEADS; h++) {
    unpack8(scaled_query[h], *(const uint4 *)(shared_query + h * HEAD_DIM + element));
    running.max[h] = -infinity();
    running.sum[h] = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++) {
      scaled_query[h][i] *= factor;
      running.value[h][i] = 0.0f;
    }
  }

  const i64 head_offset = (i64)(first_head / GROUP) * head_stride + element;
  const i32 token_of_warp = lane / LANES_PER_TOKEN;
  for (i32 step = begin; step < end; step += TOKENS_PER_STEP * UNROLL) {
    const i32 round = (u32)(step - begin) / TOKENS_PER_STEP % LANES_PER_TOKEN;
    if (round == 0) {
      page_of_lane = next_page_of_lane;
      next_page_of_lane = look_up(step + TOKENS_PER_LOOKUP);
    }
    uint4 key[UNROLL], value[UNROLL];
    bool visible[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      const i32 token = step + u * TOKENS_PER_STEP + warp * TOKENS_PER_WARP + token_of_warp;
      const i32 page = __shfl_sync(FULL_WARP, page_of_lane, (round + u) * TOKENS_PER_WARP + token_of_warp);
      visible[u] = token < end;
      key[u] = make_uint4(0, 0, 0, 0);
      value[u] = make_uint4(0, 0, 0, 0);
      // Rows past the context may hold anything, NaN included: they are not read, so zero times NaN cannot arise.
      if (visible[u]) {
        const i64 offset = offset_in_page(page, token, page_stride, token_stride) + head_offset;
        key[u] = *(const uint4 *)(keys + offset);
        value[u] = *(const uint4 *)(values + offset);
      }
    }
    accumulate(running, scaled_query, key, value, visible, softcap);
  }

  join_lanes(running);
#pragma unroll
  for (int h = 0; h < HEADS; h++) {
    if (lane < LANES_PER_TOKEN) {
      const float(&value)[8] = running.value[h];
      float *to = warp_value[warp][h];
      *(float4 *)&to[turned(element)] = make_float4(value[0], value[1], value[2], value[3]);
      *(float4 *)&to[turned(element + 4)] = make_float4(value[4], value[5], value[6], value[7]);
    }
    if (lane == 0) {
      warp_max[warp][h] = running.max[h];
      warp_sum[warp][h] = running.sum[h];
    }
  }
  __syncthreads();

  for (i32 index = threadIdx.x; index < HEADS * HEAD_DIM; index += THREADS) {
    const i32 h = index / HEAD_DIM;
    const i32 d = index % HEAD_DIM;
    float max = -infinity();
#pragma unroll
    for (int w = 0; w < WARPS; w++) max = fmaxf(max, warp_max[w][h]);
    const float reference = finite_reference(max);
    float sum = 0.0f, value = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      const float weight = exp2_approx(warp_max[w][h] - reference);
      sum = fmaf(weight, warp_sum[w][h], sum);
      value = fmaf(weight, warp_value[w][h][turned(d)], value);
    }
    const bool empty = max == -infinity();
    // A sink counts once: where splits are merged, it is for the merge to add.
    const float sink = splits == 1 ? sink_weight(sinks, first_head + h, max) : 0.0f;
    const float result = empty ? 0.0f : value / (sum + sink);
    // Minus infinity where nothing is visible, since the sum is zero.
    const float denominator = LN_2 * (max + log2_approx(sum));
    const i64 row = first_row + h;
    if (splits == 1) {
      output[row * HEAD_DIM + d] = to_bf16(result);
      if (d == 0) lse[row] = denominator;
    } else {
      const i64 part = row * splits + split;
      split_output[part * HEAD_DIM + d] = result;
      if (d == 0) split_lse[part] = denominator;
    }
  }
}
