// Small kernels of two blocks with one thread each, that race or do not. The tests find lines by the words behind `//!`.
typedef unsigned int u32;
#define KERNEL extern "C" __global__ void

// Each block writes its own word, and reads its own or the other's.
template <bool Sound> __device__ __forceinline__ void neighbours(u32 *data) {
  data[blockIdx.x] = 7; //! writes
  data[8 + blockIdx.x] = data[Sound ? blockIdx.x : blockIdx.x ^ 1]; //! reads
}
KERNEL neighbour(u32 *data) { neighbours<false>(data); }
KERNEL neighbour_sound(u32 *data) { neighbours<true>(data); }

// Both blocks write one byte of a word, the same or neighbouring ones.
template <bool Sound> __device__ __forceinline__ void bytes(u32 *data) {
  ((unsigned char *)data)[Sound ? blockIdx.x : 0] = 3; //! same_byte
}
KERNEL same_byte(u32 *data) { bytes<false>(data); }
KERNEL same_byte_sound(u32 *data) { bytes<true>(data); }

// The block that comes last adds up what both have written.
template <bool Sound> __device__ __forceinline__ void last_adds(u32 *data) {
  data[blockIdx.x] = 20 + blockIdx.x;
  if (Sound) __threadfence();
  if (atomicAdd(&data[9], 1) == 1) {
    if (Sound) __threadfence();
    data[10] = data[0] + data[1]; //! last_block
  }
}
KERNEL last_block(u32 *data) { last_adds<false>(data); }
KERNEL last_block_sound(u32 *data) { last_adds<true>(data); }
