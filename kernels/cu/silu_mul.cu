// The gated activation of a feed-forward block.
//
//   output[row, i] = silu(gate_up[row, i]) * gate_up[row, WIDTH + i],   silu(x) = x / (1 + e^-x)
//
// Set by the host, which also checks them:
//   WIDTH      elements of an output row
//   VECTOR     elements of one access: 8 where WIDTH is a multiple of it, otherwise 1
#include "common.cuh"

enum : int {
  THREADS = 128,
  PIECES = WIDTH / VECTOR,
};

// gate_up   rows of WIDTH gates followed by WIDTH ups
// output    rows of WIDTH elements; rows of either are `stride` elements apart
//
// Grid (rows, pieces of a row / THREADS).
extern "C" __global__ void __launch_bounds__(THREADS)
silu_mul(const bf16 *gate_up, i64 gate_up_stride, bf16 *output, i64 output_stride) {
  const i32 piece = blockIdx.y * THREADS + threadIdx.x;
  if (piece >= PIECES) return;
  const bf16 *from = gate_up + (i64)blockIdx.x * gate_up_stride + piece * VECTOR;
  float gate[VECTOR], up[VECTOR];
  load(gate, from);
  load(up, from + WIDTH);
#pragma unroll
  for (int i = 0; i < VECTOR; i++) gate[i] = silu(gate[i]) * up[i];
  store(output + (i64)blockIdx.x * output_stride + piece * VECTOR, gate);
}
