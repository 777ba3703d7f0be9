// Rows of a table, by number: the embedding of a batch of tokens, or the rows of a batch whose logits are wanted.
//
//   output[i] = table[row[i]], zeros where the table has no such row
//
// Set by the host, which also checks them:
//   WIDTH      elements of a row
//   VECTOR     elements of one access: 8 where WIDTH is a multiple of it, otherwise 1
#include "common.cuh"

enum : int {
  THREADS = 128,
  PIECES = WIDTH / VECTOR,
};

// table, output   rows of WIDTH elements, each `stride` elements after the one before
// row             one number for each row of the output
//
// Grid (rows of the output, pieces of a row / THREADS).
extern "C" __global__ void __launch_bounds__(THREADS)
gather_rows(const bf16 *table, i64 table_stride, u32 table_rows, const u32 *row, bf16 *output, i64 output_stride) {
  const i32 piece = blockIdx.y * THREADS + threadIdx.x;
  if (piece >= PIECES) return;
  // A negative number is beyond any table as well.
  const u32 from = row[blockIdx.x];
  const bf16 *source = table + (i64)from * table_stride + piece * VECTOR;
  bf16 *to = output + (i64)blockIdx.x * output_stride + piece * VECTOR;
  if (VECTOR == 8)
    *(uint4 *)to = from < table_rows ? *(const uint4 *)source : make_uint4(0, 0, 0, 0);
  else
    *to = from < table_rows ? *source : (bf16)0;
}
