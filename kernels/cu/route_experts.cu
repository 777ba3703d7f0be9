// Which experts a token goes to: its likeliest ones, of equally likely ones those with the lower number, and how much
// each of them counts.
//
// By softmax, an expert counts as much as it is likely. By sigmoid, each expert has a score of its own, and is chosen
// by that and a bias, but counts by its score alone; there may be groups of experts, of which only the best are chosen
// from: those whose two best experts add up to most.
//
// A warp takes one token. Every order is fixed, so a token's experts and weights do not depend on its batch.
//
// Set by the host, which also checks them:
//   EXPERTS        experts to choose from, up to 1024
//   CHOSEN         experts of a token, up to EXPERTS
//   RENORMALISE    1: the weights of a token sum to one; 0: each is its probability among all experts, or its score
//   SIGMOID        1: by sigmoid; 0: by softmax
//   GROUPS         by sigmoid: groups of as many experts each, up to 32; those of one group follow one another
//   CHOSEN_GROUPS  groups that experts are chosen from, up to GROUPS
#include "common.cuh"

enum : int {
  WARPS = 4,
  THREADS = WARPS * 32,
  PER_LANE = (EXPERTS + 31) / 32,
  // Chosen experts are kept by the lanes, in order.
  KEPT = (CHOSEN + 31) / 32,
  GROUP = EXPERTS / GROUPS,
};

// e^(logit - max). The likeliest expert has exactly 1, be it infinitely likely; where none is possible all have 0.
DEVICE float power(float logit, float max) {
  if (max == -infinity()) return 0.0f;
  return logit == max ? 1.0f : exp2_approx((logit - max) * LOG2_E);
}

// The groups that experts are chosen from, a bit each. `choices` is a warp's: how much is for choosing each expert.
DEVICE u32 best_groups(const float *choices) {
  const i32 lane = threadIdx.x % 32;
  u32 order = 0;
  if (lane < GROUPS) {
    float first = -infinity(), second = -infinity();
    // Each lane begins elsewhere in its group: all would read the same bank.
    for (i32 i = 0; i < GROUP; i++) {
      const float choice = choices[lane * GROUP + (i + lane) % GROUP];
      second = fmaxf(second, fminf(first, choice));
      first = fmaxf(first, choice);
    }
    order = ascending(first + second);
  }
  u32 best = 0;
  for (i32 i = 0; i < CHOSEN_GROUPS; i++) {
    const u32 highest = warp_max(order);
    const u32 group = warp_min(order == highest ? lane : 0xffffffffu);
    best |= 1u << group;
    if (lane == group) order = 0;
  }
  return best;
}

// Turns logits into scores, and `order` into that of score and bias, without the experts of other groups.
DEVICE void order_by_score(float (&logit)[PER_LANE], u32 (&order)[PER_LANE], const float *bias) {
  __shared__ float choices[WARPS][GROUPS > 1 ? EXPERTS : 1];
  const i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    const i32 expert = i * 32 + lane;
    if (expert >= EXPERTS) continue;
    const bool possible = logit[i] > -infinity();
    logit[i] = 1.0f / (1.0f + exp2_approx(-logit[i] * LOG2_E));
    const float choice = possible ? logit[i] + (bias ? bias[expert] : 0.0f) : -infinity();
    order[i] = ascending(choice);
    if constexpr (GROUPS > 1) choices[warp][expert] = choice;
  }
  if constexpr (GROUPS > 1) {
    __syncwarp();
    const u32 best = best_groups(choices[warp]);
#pragma unroll
    for (int i = 0; i < PER_LANE; i++)
      if (!(best >> (i * 32 + lane) / GROUP & 1)) order[i] = 0;
  }
}

// A lane's share of a token's logits. Not a number is not likely, and neither is an expert that there is not.
template <typename LOGIT> DEVICE void load_logits(float (&logit)[PER_LANE], const LOGIT *logits) {
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    const i32 expert = i * 32 + threadIdx.x % 32;
    logit[i] = -infinity();
    if (expert >= EXPERTS) continue;
    float x[1];
    load(x, logits + expert);
    if (x[0] == x[0]) logit[i] = x[0];
  }
}

DEVICE void route(const void *logits, bool is_f32, i64 stride, const i32 *positions, i32 tokens, const float *bias,
                  float scale, i32 *experts, float *weights) {
  const i32 lane = threadIdx.x % 32;
  const i64 token = (i64)blockIdx.x * WARPS + threadIdx.x / 32;
  if (token >= tokens) return;
  experts += token * CHOSEN;
  weights += token * CHOSEN;
  if (positions[token] < 0) {
    for (i32 place = lane; place < CHOSEN; place += 32) {
      experts[place] = -1;
      weights[place] = 0.0f;
    }
    return;
  }

  float logit[PER_LANE];
  if (is_f32)
    load_logits(logit, (const float *)logits + token * stride);
  else
    load_logits(logit, (const bf16 *)logits + token * stride);
  // 0 stands for an expert that is already chosen. One that there is not comes last: nothing is less likely than minus
  // infinity, and of what is equally likely it has the highest number.
  u32 order[PER_LANE];
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) order[i] = ascending(logit[i]);

  if constexpr (SIGMOID) order_by_score(logit, order, bias);

  float max = -infinity(), total = 0.0f;
  i32 kept_expert[KEPT];
  float kept_power[KEPT];
#pragma unroll
  for (int k = 0; k < KEPT; k++) {
    kept_expert[k] = -1;
    kept_power[k] = 0.0f;
#pragma unroll 1
    for (i32 place = 0; place < 32 && k * 32 + place < CHOSEN; place++) {
      u32 best = 0;
      i32 at = 0;
      float of = -infinity();
#pragma unroll
      for (int i = 0; i < PER_LANE; i++)
        if (order[i] > best) {
          best = order[i];
          at = i;
          of = logit[i];
        }
      const u32 highest = warp_max(best);
      const u32 expert = warp_min(best == highest ? at * 32 + lane : 0xffffffffu);
#pragma unroll
      for (int i = 0; i < PER_LANE; i++)
        if (expert == i * 32 + lane) order[i] = 0;
      // From its lane: the number of the expert modulo 32, which a shuffle takes itself.
      of = __shfl_sync(FULL_WARP, of, expert);
      if (k == 0 && place == 0) max = of;
      const float share = SIGMOID ? of : power(of, max);
      if (RENORMALISE) total += share;
      if (lane == place) {
        kept_expert[k] = expert;
        kept_power[k] = share;
      }
    }
  }
  if (SIGMOID) {
    // What it is divided by is not zero.
    total = RENORMALISE ? total + 1e-20f : 1.0f;
  } else if (!RENORMALISE) {
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) total += power(logit[i], max);
    total = warp_sum(total);
  }
#pragma unroll
  for (int k = 0; k < KEPT; k++) {
    const i32 place = k * 32 + lane;
    if (place >= CHOSEN) continue;
    experts[place] = kept_expert[k];
    weights[place] = total > 0.0f ? kept_power[k] / total * scale : 0.0f;
  }
}

// logits      rows of EXPERTS logits, f32 or bf16 as `is_f32` says, each `stride` after the one before
// positions   one for each token; a negative one marks padding, which goes nowhere: experts -1, weights 0
// bias        by sigmoid: [EXPERTS], or null
// scale       by sigmoid: a factor of all weights
// experts, weights   [tokens, CHOSEN], the likeliest first
//
// Grid (tokens / WARPS).
extern "C" __global__ void __launch_bounds__(THREADS)
#if SIGMOID
route_experts(const void *logits, i32 is_f32, i64 stride, const i32 *positions, i32 tokens, const float *bias,
              float scale, i32 *experts, float *weights) {
  route(logits, is_f32, stride, positions, tokens, bias, scale, experts, weights);
}
#else
route_experts(const void *logits, i32 is_f32, i64 stride, const i32 *positions, i32 tokens, i32 *experts,
              float *weights) {
  route(logits, is_f32, stride, positions, tokens, nullptr, 1.0f, experts, weights);
}
#endif
