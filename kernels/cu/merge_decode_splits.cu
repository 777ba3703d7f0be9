// Joins what the splits of a context have left, in split order.
#include "attention.cuh"

// split_output, split_lse   [requests, QUERY_HEADS, splits, HEAD_DIM] and [.., splits]
// output, lse               as of the attention kernels
// sinks                     [QUERY_HEADS], with SINKS: they count once, which is here
//
// Grid (requests * QUERY_HEADS), block HEAD_DIM.
extern "C" __global__ void __launch_bounds__(HEAD_DIM)
merge_decode_splits(const float *split_output, const float *split_lse, bf16 *output, float *lse, const float *sinks,
                    i32 splits) {
  const i64 row = blockIdx.x;
  const i32 d = threadIdx.x;
  const float *parts = split_lse + row * splits;
  float max = -infinity();
  for (i32 split = 0; split < splits; split++) max = fmaxf(max, parts[split]);
  const float reference = finite_reference(max);
  float sum = 0.0f, value = 0.0f;
  for (i32 split = 0; split < splits; split++) {
    const float weight = exp2_approx((parts[split] - reference) * LOG2_E);
    sum += weight;
    value = fmaf(weight, split_output[(row * splits + split) * HEAD_DIM + d], value);
  }
  const bool empty = max == -infinity();
  const float sink = sink_weight(sinks, row % QUERY_HEADS, max * LOG2_E);
  output[row * HEAD_DIM + d] = to_bf16(empty ? 0.0f : value / (sum + sink));
  if (d == 0) lse[row] = empty ? -infinity() : max + LN_2 * log2_approx(sum);
}
