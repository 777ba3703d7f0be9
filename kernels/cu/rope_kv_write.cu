// What happens to queries, keys and values between their projection and attention, in one pass: normalisation of
// queries and keys where the model has one, clipping, rotation, and the write of keys and values into a paged pool.
//
// A warp takes one head of one token, so results do not depend on the batch. Element i of a head turns with element
// i + HEAD_DIM / 2: a lane holds pairs of both halves. Everything is computed in f32 and rounded to bf16 once.
//
// Set by the host, which also checks them:
//   HEAD_DIM       elements per head, a multiple of 8 up to 512
//   QUERY_HEADS    query heads of the model
//   KV_HEADS       key/value heads
//   PAGE_SHIFT     log2 of the tokens in a page
//   NORM           0: none; 1: every query and key head on its own; 2: all query heads as one vector, all key heads as one
#include "common.cuh"

enum : int {
  WARPS = 8,
  THREADS = WARPS * 32,
  HALF = HEAD_DIM / 2,
  // A lane takes two neighbouring elements of either half at a time.
  ROUNDS = (HALF + 63) / 64,
  HEADS = QUERY_HEADS + 2 * KV_HEADS,
  // A vector that spans heads is summed by one block.
  BLOCK_HEADS = NORM == 2 ? HEADS : WARPS,
};

// A lane's part of a head: elements of the lower half, and those of the upper half that turn with them.
struct Part {
  float low[ROUNDS][2];
  float high[ROUNDS][2];
};

// Calls `body(round, first element)` for the pairs that this lane holds.
template <typename BODY> DEVICE void each_pair(BODY body) {
#pragma unroll
  for (int round = 0; round < ROUNDS; round++) {
    const i32 element = (round * 32 + threadIdx.x % 32) * 2;
    if (element < HALF) body(round, element);
  }
}

DEVICE void load_pair(float (&to)[2], const bf16 *from) {
  const u32 pair = *(const u32 *)from;
  to[0] = low_half(pair);
  to[1] = high_half(pair);
}

DEVICE void load_pair(float (&to)[2], const float *from) {
  const float2 pair = *(const float2 *)from;
  to[0] = pair.x;
  to[1] = pair.y;
}

DEVICE float load_part(Part &part, const bf16 *head) {
  float squares = 0.0f;
  each_pair([&](i32 round, i32 element) {
    load_pair(part.low[round], head + element);
    load_pair(part.high[round], head + HALF + element);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      squares = fmaf(part.low[round][i], part.low[round][i], squares);
      squares = fmaf(part.high[round][i], part.high[round][i], squares);
    }
  });
  return squares;
}

template <typename WEIGHT> DEVICE void multiply(Part &part, float scale, const WEIGHT *weight) {
  each_pair([&](i32 round, i32 element) {
    float low[2], high[2];
    load_pair(low, weight + element);
    load_pair(high, weight + HALF + element);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      part.low[round][i] *= scale * low[i];
      part.high[round][i] *= scale * high[i];
    }
  });
}

// NaN stays what it is.
DEVICE float clip(float x, float limit) { return x > limit ? limit : x < -limit ? -limit : x; }

DEVICE void rotate(Part &part, const float *turns) {
  each_pair([&](i32 round, i32 element) {
    float cos[2], sin[2];
    load_pair(cos, turns + element);
    load_pair(sin, turns + HALF + element);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const float low = part.low[round][i], high = part.high[round][i];
      part.low[round][i] = low * cos[i] - high * sin[i];
      part.high[round][i] = high * cos[i] + low * sin[i];
    }
  });
}

template <typename WEIGHT>
DEVICE void write_heads(const bf16 *qkv, i64 qkv_stride, const WEIGHT *query_weight, const WEIGHT *key_weight,
                        float epsilon, float limit, const i32 *positions, const float *turns, i32 table_positions,
                        bf16 *query, i64 query_stride, bf16 *keys, bf16 *values, const i32 *slots, i32 pool_tokens,
                        i64 page_stride, i64 token_stride, i64 head_stride) {
  __shared__ float partial[2][WARPS];
  const i64 token = blockIdx.x;
  const i32 warp = threadIdx.x / 32;
  const i32 first_head = blockIdx.y * BLOCK_HEADS;
  const i32 end_head = min(first_head + BLOCK_HEADS, (i32)HEADS);
  const i32 position = positions[token];
  const bool exists = (u32)position < (u32)table_positions;
  const i32 slot = slots[token];
  const bool stored = exists && (u32)slot < (u32)pool_tokens;
  qkv += token * qkv_stride;

  float whole_query = 0.0f, whole_key = 0.0f;
  if (NORM == 2) {
    float squares[2] = {0.0f, 0.0f};
    for (i32 head = warp; head < QUERY_HEADS + KV_HEADS; head += WARPS) {
      Part part;
      const float sum = load_part(part, qkv + head * HEAD_DIM);
      if (head < QUERY_HEADS)
        squares[0] += sum;
      else
        squares[1] += sum;
    }
    whole_query = rsqrtf(block_sum(squares[0], partial[0]) / (QUERY_HEADS * HEAD_DIM) + epsilon);
    whole_key = rsqrtf(block_sum(squares[1], partial[1]) / (KV_HEADS * HEAD_DIM) + epsilon);
  }

  for (i32 head = first_head + warp; head < end_head; head += WARPS) {
    const bool is_query = head < QUERY_HEADS;
    const bool is_value = head >= QUERY_HEADS + KV_HEADS;
    const i32 of_kind = is_query ? head : is_value ? head - QUERY_HEADS - KV_HEADS : head - QUERY_HEADS;
    Part part;
    const float squares = load_part(part, qkv + head * HEAD_DIM);
    if (NORM != 0 && !is_value) {
      const WEIGHT *weight = is_query ? query_weight : key_weight;
      const float scale = NORM == 2 ? (is_query ? whole_query : whole_key) : rsqrtf(warp_sum(squares) / HEAD_DIM + epsilon);
      multiply(part, scale, NORM == 2 ? weight + of_kind * HEAD_DIM : weight);
    }
    each_pair([&](i32 round, i32) {
#pragma unroll
      for (int i = 0; i < 2; i++) {
        part.low[round][i] = clip(part.low[round][i], limit);
        part.high[round][i] = clip(part.high[round][i], limit);
      }
    });
    if (!is_value && exists) rotate(part, turns + (i64)position * HEAD_DIM);

    if (!is_query && !stored) continue;
    bf16 *to;
    if (is_query) {
      to = query + token * query_stride + of_kind * HEAD_DIM;
    } else {
      const i64 offset = (i64)(slot >> PAGE_SHIFT) * page_stride +
                         (i64)(slot & ((1 << PAGE_SHIFT) - 1)) * token_stride + (i64)of_kind * head_stride;
      to = (is_value ? values : keys) + offset;
    }
    each_pair([&](i32 round, i32 element) {
      const float(&low)[2] = part.low[round], (&high)[2] = part.high[round];
      *(u32 *)(to + element) = exists ? to_bf16_pair(low[0], low[1]) : 0;
      *(u32 *)(to + HALF + element) = exists ? to_bf16_pair(high[0], high[1]) : 0;
    });
  }
}

// qkv             rows of HEADS heads: queries, keys, values
// query_weight, key_weight   [HEAD_DIM] each, or all heads' where NORM is 2; not used where it is 0
// limit           results of the normalisation, and values, are brought into -limit..=limit
// positions       one for each token; one that the table does not have marks padding: zeros as query, nothing stored
// turns           [table_positions, HEAD_DIM]: cosines of the HALF angles, then sines
// query           rows of QUERY_HEADS heads
// keys, values    pools, addressed by the strides (in elements)
// slots           where in the pools each token goes: page * page size + place; one that there is not is not stored
//
// Grid (tokens, HEADS / BLOCK_HEADS).
#define ROPE_KV_WRITE(NAME, WEIGHT)                                                                                   \
  extern "C" __global__ void __launch_bounds__(THREADS)                                                               \
  NAME(const bf16 *qkv, i64 qkv_stride, const WEIGHT *query_weight, const WEIGHT *key_weight, float epsilon,          \
       float limit, const i32 *positions, const float *turns, i32 table_positions, bf16 *query, i64 query_stride,     \
       bf16 *keys, bf16 *values, const i32 *slots, i32 pool_tokens, i64 page_stride, i64 token_stride,                \
       i64 head_stride) {                                                                                             \
    write_heads(qkv, qkv_stride, query_weight, key_weight, epsilon, limit, positions, turns, table_positions, query,  \
                query_stride, keys, values, slots, pool_tokens, page_stride, token_stride, head_stride);              \
  }

ROPE_KV_WRITE(rope_kv_write_bf16, bf16)
ROPE_KV_WRITE(rope_kv_write_f32, float)
