#pragma once
// What joins parts of an attention row: each is the weighted mean of the values of some keys, together with the natural
// logarithm of its softmax denominator.
//
// Set by the host:
//   SINKS   1 if every query head has a sink, a score without a value
#include "common.cuh"

// What `2^(x - reference)` must use as reference: a row with nothing visible yet has max -inf, and -inf - -inf is NaN.
DEVICE float finite_reference(float max) { return max == -infinity() ? 0.0f : max; }

// What a head's sink adds to the sum of weights that are relative to 2^max.
DEVICE float sink_weight(const float *sinks, i32 head, float max) {
  return SINKS ? exp2_approx(sinks[head] * LOG2_E - max) : 0.0f;
}

// A mean over parts in progress, of N neighbouring elements. The order of the parts decides its bits.
template <int N> struct Merged {
  // The highest logarithm of all parts, which is known before the first is added.
  float highest;
  float sum = 0.0f;
  float value[N] = {};

  DEVICE explicit Merged(float highest) : highest(highest) {}

  // Adds a part, whose elements `load` gives. Those of a part that saw no key are not looked at: they may be anything.
  template <typename LOAD> DEVICE void add(float lse, LOAD load) {
    const float weight = exp2_approx((lse - finite_reference(highest)) * LOG2_E);
    if (weight == 0.0f) return;
    float part[N];
    load(part);
    sum += weight;
#pragma unroll
    for (int i = 0; i < N; i++) value[i] = fmaf(weight, part[i], value[i]);
  }

  // Ends the sums with the sink of a head, which counts in the mean and not in the logarithm: the mean is left in
  // `value`, the logarithm is the result.
  DEVICE float finish(const float *sinks, i32 head) {
    const bool empty = highest == -infinity();
    const float denominator = sum + sink_weight(sinks, head, highest * LOG2_E);
#pragma unroll
    for (int i = 0; i < N; i++) value[i] = empty ? 0.0f : value[i] / denominator;
    // Minus infinity where nothing is visible, since the sum is zero.
    return highest + LN_2 * log2_approx(sum);
  }
};
