// Small kernels with one defect each, next to a sound twin. The tests find the line to expect by the words behind `//!`.
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned long long u64;
#define KERNEL extern "C" __global__ void
#define FULL 0xffffffffu
__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void copy_async(void *to, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// The first warp hands its 32 numbers to the second.
template <bool Sound> __device__ __forceinline__ void hand_over(const u32 *in, u32 *out) {
  __shared__ u32 tile[32];
  if (threadIdx.x < 32) tile[threadIdx.x] = in[threadIdx.x];
  if (Sound) __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x & 31]; //! read_after_write
}
KERNEL read_after_write(const u32 *in, u32 *out) { hand_over<false>(in, out); }
KERNEL read_after_write_sound(const u32 *in, u32 *out) { hand_over<true>(in, out); }

// The second warp reuses what the first still reads.
template <bool Sound> __device__ __forceinline__ void reuse(const u32 *in, u32 *out) {
  __shared__ u32 tile[32];
  if (threadIdx.x < 32) tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 32) out[threadIdx.x] = tile[31 - threadIdx.x];
  if (Sound) __syncthreads();
  if (threadIdx.x >= 32) tile[threadIdx.x - 32] = in[threadIdx.x]; //! write_after_read
  __syncthreads();
  if (threadIdx.x < 32) out[threadIdx.x + 32] = tile[threadIdx.x];
}
KERNEL write_after_read(const u32 *in, u32 *out) { reuse<false>(in, out); }
KERNEL write_after_read_sound(const u32 *in, u32 *out) { reuse<true>(in, out); }

// Both warps write one place, unless only one does.
template <bool Sound> __device__ __forceinline__ void last_wins(const u32 *in, u32 *out) {
  __shared__ u32 tile[32];
  if (!Sound || threadIdx.x < 32) tile[threadIdx.x & 31] = in[threadIdx.x]; //! write_after_write
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x & 31];
}
KERNEL write_after_write(const u32 *in, u32 *out) { last_wins<false>(in, out); }
KERNEL write_after_write_sound(const u32 *in, u32 *out) { last_wins<true>(in, out); }

// One warp mirrors its 32 numbers; lanes of a warp need a barrier too.
template <bool Sound> __device__ __forceinline__ void mirror_warp(const u32 *in, u32 *out) {
  __shared__ u32 tile[32];
  tile[threadIdx.x] = in[threadIdx.x];
  if (Sound) __syncwarp();
  out[threadIdx.x] = tile[31 - threadIdx.x]; //! race_in_warp
}
KERNEL race_in_warp(const u32 *in, u32 *out) { mirror_warp<false>(in, out); }
KERNEL race_in_warp_sound(const u32 *in, u32 *out) { mirror_warp<true>(in, out); }

// Copies 512 bytes per warp through shared memory, each thread its own 16.
template <bool Sound> __device__ __forceinline__ void staged(const u32 *in, u32 *out) {
  __shared__ __align__(16) u32 tile[128];
  copy_async(&tile[threadIdx.x * 4], in + threadIdx.x * 4);
  commit();
  wait<Sound ? 0 : 1>();
  out[threadIdx.x] = tile[threadIdx.x * 4]; //! pending_copy
}
KERNEL pending_copy(const u32 *in, u32 *out) { staged<false>(in, out); }
KERNEL pending_copy_sound(const u32 *in, u32 *out) { staged<true>(in, out); }

// Half the tile is never written.
template <bool Sound> __device__ __forceinline__ void half_written(const u32 *in, u32 *out) {
  __shared__ u32 tile[32];
  if (Sound || threadIdx.x < 16) tile[threadIdx.x] = in[threadIdx.x];
  __syncwarp();
  out[threadIdx.x] = tile[threadIdx.x]; //! uninitialised_shared
}
KERNEL uninitialised_shared(const u32 *in, u32 *out) { half_written<false>(in, out); }
KERNEL uninitialised_shared_sound(const u32 *in, u32 *out) { half_written<true>(in, out); }

// Reads one element past the end, or what the host never wrote, as the caller arranges.
KERNEL copy(const u32 *in, u32 *out) {
  out[threadIdx.x] = in[threadIdx.x]; //! copy
}

// Writes behind the array; the block has 128 bytes of shared memory.
KERNEL shared_out_of_bounds(u32 *out, int index) {
  __shared__ u32 tile[32];
  tile[threadIdx.x + index] = threadIdx.x; //! shared_out_of_bounds
  __syncwarp();
  out[threadIdx.x] = tile[threadIdx.x + index];
}

// A local array, indexed beyond its end.
KERNEL local_out_of_bounds(u32 *out, int index) {
  u32 table[4];
  for (int i = 0; i < 4; i++) table[i] = out[i] * 3;
  out[threadIdx.x] = table[index + (threadIdx.x & 3)]; //! local_out_of_bounds
}

// A vector load from an address that is only 4 byte aligned.
KERNEL misaligned(const u32 *in, u32 *out, int offset) {
  uint4 v = *(const uint4 *)(in + offset); //! misaligned
  out[threadIdx.x] = v.x + v.y + v.z + v.w;
}

// A matrix load that one lane does not reach.
template <bool Sound> __device__ __forceinline__ void fragments(u32 *out) {
  __shared__ __align__(16) u32 tile[32];
  tile[threadIdx.x] = threadIdx.x;
  __syncwarp();
  u32 r = 0;
  if (Sound || threadIdx.x != 31)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(shared_address(&tile[(threadIdx.x & 7) * 4])) : "memory"); //! divergent_sync
  __syncwarp();
  out[threadIdx.x] = r;
}
KERNEL divergent_sync(u32 *out) { fragments<false>(out); }
KERNEL divergent_sync_sound(u32 *out) { fragments<true>(out); }

// A barrier that one warp skips although it is counted.
template <bool Sound> __device__ __forceinline__ void counted(u32 *out) {
  if (Sound || threadIdx.x < 32) asm volatile("bar.sync 1, 64;" ::: "memory"); //! barrier
  out[threadIdx.x] = 1;
}
KERNEL barrier(u32 *out) { counted<false>(out); }
KERNEL barrier_sound(u32 *out) { counted<true>(out); }

// A shuffle in which the lanes of one half read the other.
template <bool Sound> __device__ __forceinline__ void neighbours(u32 *out) {
  u32 v = threadIdx.x;
  if (threadIdx.x < 16) v = __shfl_xor_sync(0xffffu, v, Sound ? 8 : 16); //! inactive_lane
  out[threadIdx.x] = v;
}
KERNEL inactive_lane(u32 *out) { neighbours<false>(out); }
KERNEL inactive_lane_sound(u32 *out) { neighbours<true>(out); }

// A shuffle of all lanes after some have left.
KERNEL member_mask(u32 *out) {
  if (threadIdx.x >= 16) return;
  out[threadIdx.x] = __shfl_xor_sync(FULL, threadIdx.x, 1); //! member_mask
}

// Waits for a number that only a later block writes.
KERNEL endless(volatile u32 *flag) {
  while (*flag == 0) { //! endless
  }
}

// Warp 0 waits for a number that warp 1 writes: legal, if warps take turns.
KERNEL handover(u32 *out) {
  __shared__ volatile u32 flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x == 32) atomicExch((u32 *)&flag, 7);
  if (threadIdx.x == 0) {
    u32 seen;
    while ((seen = atomicAdd((u32 *)&flag, 0)) == 0) {
    }
    *out = seen;
  }
}

__constant__ u32 weights[4] = {2, 3, 5, 7};
__device__ u32 counter = 40;
// Constant and global variables.
KERNEL variables(u32 *out) {
  out[threadIdx.x] = weights[threadIdx.x & 3];
  if (threadIdx.x == 0) counter += 2;
}

// Columns of a matrix: every lane in the same bank, unless rows are padded.
template <int Pitch> __device__ __forceinline__ void columns(u32 *out) {
  __shared__ u32 tile[32 * Pitch];
  for (int i = 0; i < 32; i++) tile[i * Pitch + threadIdx.x] = i;
  __syncwarp();
  out[threadIdx.x] = tile[threadIdx.x * Pitch];
}
KERNEL bank_conflicts(u32 *out) { columns<32>(out); }
KERNEL bank_conflicts_padded(u32 *out) { columns<33>(out); }

KERNEL trapped(u32 *out) {
  if (out[threadIdx.x] == 3) __trap(); //! trapped
}
