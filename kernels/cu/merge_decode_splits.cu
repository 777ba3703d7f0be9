// Joins what the splits of a context have left, in split order.
//
// Set by the host beside SINKS:
//   HEAD_DIM       elements per head
//   QUERY_HEADS    query heads of the model
#include "merging.cuh"

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
  Merged<1> merged(max);
  for (i32 split = 0; split < splits; split++)
    merged.add(parts[split],
               [&](float(&part)[1]) { part[0] = split_output[(row * splits + split) * HEAD_DIM + d]; });
  const float denominator = merged.finish(sinks, row % QUERY_HEADS);
  output[row * HEAD_DIM + d] = to_bf16(merged.value[0]);
  if (d == 0) lse[row] = denominator;
}
