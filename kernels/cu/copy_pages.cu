// Copies of whole pages within a key pool and a value pool, as when two sequences part that shared a page.
#include "common.cuh"

enum : int {
  THREADS = 256,
};

// keys, values   pools
// pages          pages in each pool; a pair with a page that there is not copies nothing
// page_stride    from a page to the next, in elements
// page_pieces    16-byte pieces of a page that are copied
// pairs          [pairs, 2], from and to; no page is copied to twice, nor both copied to and from
//
// Grid (pairs, blocks that share a page, 2 for keys and values).
extern "C" __global__ void __launch_bounds__(THREADS)
copy_pages(bf16 *keys, bf16 *values, u32 pages, i64 page_stride, i64 page_pieces, const i32 *pairs) {
  const u32 from = pairs[2 * (i64)blockIdx.x];
  const u32 to = pairs[2 * (i64)blockIdx.x + 1];
  if (from >= pages || to >= pages) return;
  bf16 *pool = blockIdx.z == 0 ? keys : values;
  const uint4 *source = (const uint4 *)(pool + (i64)from * page_stride);
  uint4 *target = (uint4 *)(pool + (i64)to * page_stride);
  for (i64 piece = blockIdx.y * THREADS + threadIdx.x; piece < page_pieces; piece += gridDim.y * THREADS)
    target[piece] = source[piece];
}
