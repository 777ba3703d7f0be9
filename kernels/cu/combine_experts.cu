// What a token gets from its experts: the weighted sum of their rows, in the order in which they were chosen.
//
//   output[token, i] = sum over c of weights[token, c] * rows[token * CHOSEN + c, i]
//
// Set by the host, which also checks them:
//   WIDTH      elements of a row
//   VECTOR     elements of one access: 8 where WIDTH is a multiple of it, otherwise 1
//   CHOSEN     experts of a token
#include "common.cuh"

enum : int {
  THREADS = 128,
  PIECES = WIDTH / VECTOR,
};

// rows      rows of WIDTH elements, CHOSEN for each token
// weights   [tokens, CHOSEN]
// output    rows of WIDTH elements; rows of either are `stride` elements apart
//
// Grid (tokens, pieces of a row / THREADS).
extern "C" __global__ void __launch_bounds__(THREADS)
combine_experts(const bf16 *rows, i64 row_stride, const float *weights, bf16 *output, i64 output_stride) {
  const i32 piece = blockIdx.y * THREADS + threadIdx.x;
  if (piece >= PIECES) return;
  const i64 first = (i64)blockIdx.x * CHOSEN;
  float sum[VECTOR] = {};
#pragma unroll 4
  for (i32 choice = 0; choice < CHOSEN; choice++) {
    float row[VECTOR];
    load(row, rows + (first + choice) * row_stride + piece * VECTOR);
    const float weight = weights[first + choice];
#pragma unroll
    for (int i = 0; i < VECTOR; i++) sum[i] = fmaf(weight, row[i], sum[i]);
  }
  store(output + (i64)blockIdx.x * output_stride + piece * VECTOR, sum);
}
