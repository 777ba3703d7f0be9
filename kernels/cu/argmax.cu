// The likeliest token of every row of logits, of several the one with the lowest id.
//
// A row with a NaN or an infinitely likely token, and one in which every token is impossible, gives -1: there is no
// token to choose, and the embedding of -1 is zeros.
#include "common.cuh"

enum : int {
  THREADS = 512,
  WARPS = THREADS / 32,
};

// What a thread has seen: the place in the order of the best logit, and the token that has it.
struct Best {
  u32 order;
  i32 token;
};

DEVICE void take(Best &best, Best other) {
  if (other.order > best.order || (other.order == best.order && other.token < best.token)) best = other;
}

DEVICE void join_warp(Best &best) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes >>= 1) {
    const Best other = {__shfl_xor_sync(FULL_WARP, best.order, lanes), __shfl_xor_sync(FULL_WARP, best.token, lanes)};
    take(best, other);
  }
}

template <typename LOGIT> DEVICE void find(const LOGIT *logits, i64 stride, i32 vocabulary, i32 *tokens) {
  __shared__ u32 warp_order[WARPS];
  __shared__ i32 warp_token[WARPS];
  logits += (i64)blockIdx.x * stride;
  Best best = {0, -1};
#pragma unroll 4
  for (i32 token = threadIdx.x; token < vocabulary; token += THREADS) {
    float logit[1];
    load(logit, logits + token);
    take(best, {ascending(logit[0]), token});
  }
  join_warp(best);
  if (threadIdx.x % 32 == 0) {
    warp_order[threadIdx.x / 32] = best.order;
    warp_token[threadIdx.x / 32] = best.token;
  }
  __syncthreads();
  if (threadIdx.x >= 32) return;
  best = {0, -1};
  if (threadIdx.x < WARPS) best = {warp_order[threadIdx.x], warp_token[threadIdx.x]};
  join_warp(best);
  const bool possible = best.order > ascending(-infinity()) && best.order < ascending(infinity());
  if (threadIdx.x == 0) tokens[blockIdx.x] = possible ? best.token : -1;
}

// logits   rows of `vocabulary` logits, each `stride` after the one before
// tokens   one for each row
//
// Grid (rows).
extern "C" __global__ void __launch_bounds__(THREADS)
argmax_bf16(const bf16 *logits, i64 stride, i32 vocabulary, i32 *tokens) {
  find(logits, stride, vocabulary, tokens);
}

extern "C" __global__ void __launch_bounds__(THREADS)
argmax_f32(const float *logits, i64 stride, i32 vocabulary, i32 *tokens) {
  find(logits, stride, vocabulary, tokens);
}
