// Draws the next token of every row of logits: temperature, the k likeliest, of those the fewest that have the share p
// of the probability, of those the ones that are not too unlikely beside the likeliest; then one of what is left.
//
// A block takes a row. Weights are whole numbers, 2^40 for the likeliest token: sums of them are the same in any order,
// so a row's token depends on nothing but the row, its seed and its position. Which tokens stay is decided by a place in
// the order of logits, found digit by digit; of tokens with equal logits the ones with the lower ids stay.
#include "common.cuh"

enum : int {
  THREADS = 1024,
  WARPS = THREADS / 32,
  DIGIT_BITS = 8,
  DIGITS = 1 << DIGIT_BITS,
};

typedef unsigned long long u64;

// The tokens that stay: those above `order`, and the first `ties` of those at it.
struct Cut {
  u32 order;
  u64 ties;
};

// What the threads of a block share.
struct Shared {
  u64 histogram[DIGITS];
  u64 by_warp[WARPS];
  u32 order[WARPS];
  i32 token[WARPS];
  Cut cut;
  // What lies above the cut.
  u64 above;
};

DEVICE u64 warp_sum(u64 x) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes >>= 1) x += __shfl_xor_sync(FULL_WARP, x, lanes);
  return x;
}

// A row of logits and what its tokens weigh.
struct Row {
  const float *logits;
  i32 vocabulary;
  float max;
  // log2(e) over the temperature.
  float steepness;

  DEVICE u64 weight(float logit) const {
    return logit == max ? 1ull << 40 : (u64)(exp2_approx((logit - max) * steepness) * 1099511627776.0f);
  }
};

// Finds the cut that leaves as little as possible but at least `wanted`: of tokens, or of their weight where WEIGHED.
// `wanted` is at least 1, and not more than there is.
template <bool WEIGHED> DEVICE Cut find_cut(Shared &shared, const Row &row, u64 wanted) {
  u32 prefix = 0;
  u64 above = 0;
  for (i32 shift = 32 - DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
    for (i32 i = threadIdx.x; i < DIGITS; i += THREADS) shared.histogram[i] = 0;
    __syncthreads();
    for (i32 token = threadIdx.x; token < row.vocabulary; token += THREADS) {
      const float logit = row.logits[token];
      const u32 order = ascending(logit);
      // The digits before this one, of which there are none at first.
      const bool same = shift == 32 - DIGIT_BITS || (order ^ prefix) >> (shift + DIGIT_BITS) == 0;
      if (same) {
        const u64 amount = WEIGHED ? row.weight(logit) : 1;
        if (amount > 0) atomicAdd(&shared.histogram[order >> shift & (DIGITS - 1)], amount);
      }
    }
    __syncthreads();
    // A lane takes neighbouring digits, the highest first; what lies above them is the sum over the lanes before.
    if (threadIdx.x < 32) {
      const i32 last = DIGITS - 1 - threadIdx.x * (DIGITS / 32);
      u64 own = 0;
      for (i32 i = 0; i < DIGITS / 32; i++) own += shared.histogram[last - i];
      u64 before = own;
#pragma unroll
      for (int lanes = 1; lanes < 32; lanes <<= 1) {
        const u64 other = __shfl_up_sync(FULL_WARP, before, lanes);
        if (threadIdx.x >= lanes) before += other;
      }
      before += above - own;
      if (before < wanted && before + own >= wanted) {
        i32 digit = last;
        while (before + shared.histogram[digit] < wanted) before += shared.histogram[digit--];
        shared.cut.order = prefix | (u32)digit << shift;
        shared.above = before;
      }
    }
    __syncthreads();
    prefix = shared.cut.order;
    above = shared.above;
  }
  // No barrier is needed before the next use of what was read last: it begins with one.
  return {prefix, wanted - above};
}

DEVICE u64 mix(u64 z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

// A number of 64 bits that depends on the seed and the position only; the last eleven are zero.
DEVICE u64 random_at(u64 seed, u64 position) {
  const u64 step = 0x9e3779b97f4a7c15ull;
  const u64 start = mix(seed + step);
  return mix(start + step * position + step) >> 11 << 11;
}

// Calls `body(token, order, logit, number of tokens at the cut before this one)` for the tokens of this warp, all lanes
// together; past the end of the row the order is 0, which no token has.
template <typename BODY> DEVICE void each_token(const Row &row, u32 cut, u64 ties_before, BODY body) {
  const i32 share = (row.vocabulary + THREADS - 1) / THREADS * 32;
  const i32 lane = threadIdx.x % 32;
  const i32 begin = threadIdx.x / 32 * share;
  const i32 end = min(begin + share, row.vocabulary);
  for (i32 start = begin; start < end; start += 32) {
    const i32 token = start + lane;
    const float logit = token < end ? row.logits[token] : 0.0f;
    const u32 order = token < end ? ascending(logit) : 0;
    const u32 ties = __ballot_sync(FULL_WARP, order == cut);
    if (body(token, order, logit, ties_before + __popc(ties & ((1u << lane) - 1)))) return;
    ties_before += __popc(ties);
  }
}

// Every thread gets the sum over the warps before its own, and over all.
DEVICE u64 before_warp(Shared &shared, u64 of_warp, u64 &total) {
  // What was shared before has been read by all.
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared.by_warp[threadIdx.x / 32] = of_warp;
  __syncthreads();
  u64 before = 0;
  total = 0;
#pragma unroll 1
  for (i32 warp = 0; warp < WARPS; warp++) {
    if (warp == threadIdx.x / 32) before = total;
    total += shared.by_warp[warp];
  }
  return before;
}

// logits        rows of `vocabulary` logits, each `stride` after the one before
// temperature   [rows]; 0: the likeliest token
// top_k         [rows]; 0: all tokens
// top_p, min_p  [rows]; 1 and 0: all tokens
// seeds, positions   [rows]
// tokens        [rows]; -1 where a logit is NaN or infinity, or all are minus infinity
//
// Grid (rows).
extern "C" __global__ void __launch_bounds__(THREADS)
sample(const float *logits, i64 stride, i32 vocabulary, const float *temperature, const i32 *top_k, const float *top_p,
       const float *min_p, const u64 *seeds, const i32 *positions, i32 *tokens) {
  __shared__ Shared shared;
  const i64 index = blockIdx.x;
  const i32 lane = threadIdx.x % 32;
  Row row = {logits + index * stride, vocabulary, 0.0f, 0.0f};

  // The likeliest token, of several the first.
  u32 best = 0;
  i32 best_token = 0;
  for (i32 token = threadIdx.x; token < vocabulary; token += THREADS) {
    const u32 order = ascending(row.logits[token]);
    if (order > best) {
      best = order;
      best_token = token;
    }
  }
  u32 highest = warp_max(best);
  u32 first = warp_min(best == highest ? best_token : 0xffffffffu);
  if (lane == 0) {
    shared.order[threadIdx.x / 32] = highest;
    shared.token[threadIdx.x / 32] = first;
  }
  __syncthreads();
  best = shared.order[lane];
  best_token = shared.token[lane];
  highest = warp_max(best);
  first = warp_min(best == highest ? best_token : 0xffffffffu);
  const bool possible = highest > ascending(-infinity()) && highest < ascending(infinity());
  if (!possible || !(temperature[index] > 0.0f)) {
    if (threadIdx.x == 0) tokens[index] = possible ? (i32)first : -1;
    return;
  }
  row.max = row.logits[first];
  row.steepness = LOG2_E / temperature[index];

  // Nothing is below order 0, and there are more ties than tokens: everything stays.
  Cut cut = {0, 0xffffffffffffffffull};
  const i32 k = top_k[index];
  if (k > 0 && k < vocabulary) cut = find_cut<false>(shared, row, k);
  u64 total;
  if (top_p[index] < 1.0f) {
    // The share of what the cut leaves. A share below one is a whole number of 2^-64.
    u64 ties = 0;
    each_token(row, cut.order, 0, [&](i32, u32 order, float, u64) {
      ties += order == cut.order;
      return false;
    });
    const u64 ties_before = before_warp(shared, warp_sum(ties), total);
    u64 kept = 0;
    each_token(row, cut.order, ties_before, [&](i32, u32 order, float logit, u64 rank) {
      if (order > cut.order || (order == cut.order && rank < cut.ties && order > 0)) kept += row.weight(logit);
      return false;
    });
    before_warp(shared, warp_sum(kept), total);
    const u64 share = (u64)(top_p[index] * 18446744073709551616.0f);
    // Rounded down, by less than every weight is.
    u64 wanted = __umul64hi(total, share);
    if (wanted == 0) wanted = 1;
    const Cut closer = find_cut<true>(shared, row, wanted);
    const u64 weight = row.weight(__uint_as_float(closer.order & 0x80000000u ? closer.order ^ 0x80000000u : ~closer.order));
    cut = {closer.order, (closer.ties + weight - 1) / weight};
  }

  u64 ties = 0;
  each_token(row, cut.order, 0, [&](i32, u32 order, float, u64) {
    ties += order == cut.order;
    return false;
  });
  const u64 ties_before = before_warp(shared, warp_sum(ties), total);
  const u64 least = (u64)(min_p[index] * 1099511627776.0f);
  const auto weight_of = [&](u32 order, float logit, u64 rank) -> u64 {
    if (order == 0 || order < cut.order || (order == cut.order && rank >= cut.ties)) return 0;
    const u64 weight = row.weight(logit);
    return weight >= least ? weight : 0;
  };
  u64 kept = 0;
  each_token(row, cut.order, ties_before, [&](i32, u32 order, float logit, u64 rank) {
    kept += weight_of(order, logit, rank);
    return false;
  });
  kept = warp_sum(kept);
  u64 before = before_warp(shared, kept, total);
  const u64 target = __umul64hi(random_at(seeds[index], positions[index]), total);
  // One warp has the token whose share of the total holds the target; the others need not look for it. What is below
  // wraps around to more than any share.
  if (target - before >= kept) return;
  each_token(row, cut.order, ties_before, [&](i32 token, u32 order, float logit, u64 rank) {
    const u64 weight = weight_of(order, logit, rank);
    u64 end = weight;
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes <<= 1) {
      const u64 other = __shfl_up_sync(FULL_WARP, end, lanes);
      if (lane >= lanes) end += other;
    }
    end += before;
    if (target - (end - weight) < weight) tokens[index] = token;
    before = __shfl_sync(FULL_WARP, end, 31);
    return target < before;
  });
}
