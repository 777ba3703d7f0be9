// Joins two parts of the attention of rows, such as that over a prefix which many requests share and that over what
// follows it.
//
//   output = weighted mean of both parts, lse = logarithm of the sum of both denominators
//
// A thread takes eight elements of a head. What a row becomes does not depend on the others.
//
// Set by the host beside SINKS:
//   HEAD_DIM       elements per head, a multiple of 8
//   QUERY_HEADS    query heads of a row
#include "merging.cuh"

enum : int { THREADS = 128, PIECES = HEAD_DIM / 8 };

// A part that saw no key has minus infinity here; some kernels give plus infinity.
DEVICE float usable(float lse) { return lse == infinity() ? -infinity() : lse; }

// first, second           rows of QUERY_HEADS * HEAD_DIM elements, each `stride` elements after the one before
// first_lse, second_lse   [rows, QUERY_HEADS], natural logarithms of the parts' denominators; infinite where a part saw
//                         no key, whose elements are then not looked at
// output, lse             as the parts; zeros and minus infinity where neither saw a key
// sinks                   [QUERY_HEADS], with SINKS: they count once, which is here
//
// Grid (rows * QUERY_HEADS * PIECES / THREADS).
extern "C" __global__ void __launch_bounds__(THREADS)
merge_states(const bf16 *first, i64 first_stride, const float *first_lse, const bf16 *second, i64 second_stride,
             const float *second_lse, bf16 *output, i64 output_stride, float *lse, const float *sinks, i32 rows) {
  const i64 index = (i64)blockIdx.x * THREADS + threadIdx.x;
  const i32 element = index % PIECES * 8;
  const i64 row_head = index / PIECES;
  if (row_head >= (i64)rows * QUERY_HEADS) return;
  const i64 row = row_head / QUERY_HEADS;
  const i32 head = row_head % QUERY_HEADS;
  const i32 place = head * HEAD_DIM + element;
  const float first_part = usable(first_lse[row_head]), second_part = usable(second_lse[row_head]);
  Merged<8> merged(fmaxf(first_part, second_part));
  merged.add(first_part, [&](float(&part)[8]) { load(part, first + row * first_stride + place); });
  merged.add(second_part, [&](float(&part)[8]) { load(part, second + row * second_stride + place); });
  const float denominator = merged.finish(sinks, head);
  store(output + row * output_stride + place, merged.value);
  if (element == 0) lse[row_head] = denominator;
}
