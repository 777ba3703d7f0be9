// A bias for every row of a matrix product, in place.
//
//   rows[row, i] += bias[i]
//
// Set by the host, which also checks them:
//   WIDTH      elements of a row
//   VECTOR     elements of one access: 8 where WIDTH is a multiple of it, otherwise 1
#include "common.cuh"

enum : int {
  THREADS = 128,
  PIECES = WIDTH / VECTOR,
};

template <typename BIAS> DEVICE void add(bf16 *rows, i64 stride, const BIAS *bias) {
  const i32 piece = blockIdx.y * THREADS + threadIdx.x;
  if (piece >= PIECES) return;
  bf16 *place = rows + (i64)blockIdx.x * stride + piece * VECTOR;
  float x[VECTOR], more[VECTOR];
  load(x, place);
  load(more, bias + piece * VECTOR);
#pragma unroll
  for (int i = 0; i < VECTOR; i++) x[i] += more[i];
  store(place, x);
}

// rows   rows of WIDTH elements, each `stride` elements after the one before
// bias   [WIDTH]
//
// Grid (rows, pieces of a row / THREADS).
extern "C" __global__ void __launch_bounds__(THREADS) add_bias_bf16(bf16 *rows, i64 stride, const bf16 *bias) {
  add(rows, stride, bias);
}

extern "C" __global__ void __launch_bounds__(THREADS) add_bias_f32(bf16 *rows, i64 stride, const float *bias) {
  add(rows, stride, bias);
}
