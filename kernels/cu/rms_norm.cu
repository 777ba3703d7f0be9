// Root-mean-square normalisation of rows, with or without the addition that comes before it in a residual stream.
//
//   output[row, i] = x[row, i] / sqrt(mean of x[row]^2 + epsilon) * weight[i]
//
// where x is the input, or what the addition leaves in `residual`: residual + input, rounded to bf16. A block takes one
// row whatever the batch, so a row's bits do not depend on its batch.
//
// Set by the host, which also checks them:
//   WIDTH      elements of a row
//   VECTOR     elements of one access: 8 where WIDTH is a multiple of it, otherwise 1
//   THREADS    threads of a block, whole warps
#include "common.cuh"

enum : int {
  WARPS = THREADS / 32,
  PIECES = WIDTH / VECTOR,
  ROUNDS = (PIECES + THREADS - 1) / THREADS,
  // A row stays in registers between its two uses, unless it is so wide that it would not fit them.
  HELD = ROUNDS * VECTOR <= 32,
};

template <bool ADD, typename WEIGHT>
DEVICE void normalise(const bf16 *input, i64 input_stride, bf16 *residual, i64 residual_stride, const WEIGHT *weight,
                      bf16 *output, i64 output_stride, float epsilon) {
  __shared__ float partial[WARPS];
  input += (i64)blockIdx.x * input_stride;
  output += (i64)blockIdx.x * output_stride;
  if (ADD) residual += (i64)blockIdx.x * residual_stride;

  float held[HELD ? ROUNDS : 1][VECTOR];
  float squares = 0.0f;
#pragma unroll(HELD ? ROUNDS : 1)
  for (int round = 0; round < ROUNDS; round++) {
    const i32 piece = round * THREADS + threadIdx.x;
    if (piece >= PIECES) continue;
    float(&x)[VECTOR] = held[HELD ? round : 0];
    load(x, input + piece * VECTOR);
    if (ADD) {
      float before[VECTOR];
      load(before, residual + piece * VECTOR);
#pragma unroll
      for (int i = 0; i < VECTOR; i++) x[i] = low_half(to_bf16(before[i] + x[i]));
      store(residual + piece * VECTOR, x);
    }
#pragma unroll
    for (int i = 0; i < VECTOR; i++) squares = fmaf(x[i], x[i], squares);
  }

  const float scale = rsqrtf(block_sum(squares, partial) / WIDTH + epsilon);
#pragma unroll(HELD ? ROUNDS : 1)
  for (int round = 0; round < ROUNDS; round++) {
    const i32 piece = round * THREADS + threadIdx.x;
    if (piece >= PIECES) continue;
    float(&x)[VECTOR] = held[HELD ? round : 0];
    // What this thread wrote above, so no barrier is needed to read it.
    if (!HELD) load(x, (ADD ? residual : input) + piece * VECTOR);
    float factor[VECTOR], y[VECTOR];
    load(factor, weight + piece * VECTOR);
#pragma unroll
    for (int i = 0; i < VECTOR; i++) y[i] = x[i] * scale * factor[i];
    store(output + piece * VECTOR, y);
  }
}

// input, residual, output   rows of WIDTH elements, each `stride` elements after the one before
// weight                    [WIDTH]
//
// Grid (rows).
#define RMS_NORM(NAME, ADD, WEIGHT)                                                                                   \
  extern "C" __global__ void __launch_bounds__(THREADS)                                                               \
  NAME(const bf16 *input, i64 input_stride, bf16 *residual, i64 residual_stride, const WEIGHT *weight, bf16 *output,  \
       i64 output_stride, float epsilon) {                                                                            \
    normalise<ADD>(input, input_stride, residual, residual_stride, weight, output, output_stride, epsilon);           \
  }

RMS_NORM(rms_norm_bf16, false, bf16)
RMS_NORM(rms_norm_f32, false, float)
RMS_NORM(add_rms_norm_bf16, true, bf16)
RMS_NORM(add_rms_norm_f32, true, float)
