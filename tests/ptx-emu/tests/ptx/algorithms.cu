// Kernels that must run clean and give right numbers: reduction, scan, tiled product on tensor cores, divergent search.
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned long long u64;
#define KERNEL extern "C" __global__ void
#define FULL 0xffffffffu
__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void copy_async(void *to, const void *from, bool real) {
  u32 bytes = real ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes) : "memory");
}

// out[block] = sum of n floats.
KERNEL block_sum(const float *in, float *out, int n) {
  __shared__ float parts[32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += in[(u64)blockIdx.x * n + i];
  for (int o = 16; o; o >>= 1) sum += __shfl_down_sync(FULL, sum, o);
  if (lane == 0) parts[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = lane < warps ? parts[lane] : 0;
    for (int o = 16; o; o >>= 1) sum += __shfl_down_sync(FULL, sum, o);
    if (lane == 0) out[blockIdx.x] = sum;
  }
}

// Inclusive prefix sums of one number per thread.
KERNEL scan(const u32 *in, u32 *out) {
  extern __shared__ u32 line[];
  const int t = threadIdx.x;
  line[t] = in[t];
  __syncthreads();
  for (int d = 1; d < blockDim.x; d *= 2) {
    u32 v = t >= d ? line[t - d] : 0;
    __syncthreads();
    line[t] += v;
    __syncthreads();
  }
  out[t] = line[t];
}

// C[m,n] = A[m,k] * B[n,k]^T in bf16 with f32 sums; one warp makes a 16 by 16 tile, depth in steps of 16, two stages.
// Rows from `rows` on are padding and read as zero.
KERNEL tile_product(const u16 *a, const u16 *b, float *c, int k, int rows) {
  __shared__ __align__(16) u16 sa[2][16][24], sb[2][16][24];
  const int lane = threadIdx.x, row = lane >> 1, col = (lane & 1) * 8;
  float acc[2][4] = {};
  auto load = [&](int stage, int step) {
    copy_async(&sa[stage][row][col], a + (u64)(row < rows ? row : 0) * k + step * 16 + col, row < rows);
    copy_async(&sb[stage][row][col], b + (u64)row * k + step * 16 + col, true);
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  load(0, 0);
  for (int step = 0; step < k / 16; step++) {
    if (step + 1 < k / 16) {
      load((step + 1) & 1, step + 1);
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncwarp();
    u32 fa[4], fb[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                 : "r"(shared_address(&sa[step & 1][lane & 15][(lane >> 4) * 8])) : "memory");
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(fb[0]), "=r"(fb[1]), "=r"(fb[2]), "=r"(fb[3])
                 : "r"(shared_address(&sb[step & 1][(lane & 7) + ((lane >> 4) << 3)][((lane >> 3) & 1) * 8])) : "memory");
    for (int j = 0; j < 2; j++)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : "+f"(acc[j][0]), "+f"(acc[j][1]), "+f"(acc[j][2]), "+f"(acc[j][3])
                   : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[2 * j]), "r"(fb[2 * j + 1]));
    __syncwarp();
  }
  for (int j = 0; j < 2; j++)
    for (int i = 0; i < 4; i++) c[((lane >> 2) + (i >> 1) * 8) * 16 + j * 8 + (lane & 3) * 2 + (i & 1)] = acc[j][i];
}

// Steps of the Collatz sequence until 1: every lane loops another number of times.
KERNEL collatz(const u32 *in, u32 *out) {
  u32 n = in[threadIdx.x], steps = 0;
  while (n != 1) {
    if (n & 1)
      n = 3 * n + 1;
    else
      n >>= 1;
    steps++;
  }
  out[threadIdx.x] = steps + 1000 * __popc(__ballot_sync(FULL, steps > 10));
}

// Counts bytes into a histogram, shared first, then global.
KERNEL histogram(const unsigned char *in, u32 *out, int n) {
  __shared__ u32 bins[16];
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[in[i] & 15], 1u);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

// A block with a producer half and a consumer half that meet at named barriers.
KERNEL pipeline(const u32 *in, u32 *out, int rounds) {
  __shared__ u32 slot[64];
  const int t = threadIdx.x & 63;
  for (int r = 0; r < rounds; r++) {
    if (threadIdx.x < 64) {
      slot[t] = in[r * 64 + t];
      asm volatile("bar.sync 1, 128;" ::: "memory");
      asm volatile("bar.sync 2, 128;" ::: "memory");
    } else {
      asm volatile("bar.sync 1, 128;" ::: "memory");
      out[r * 64 + t] = slot[63 - t] + 1;
      asm volatile("bar.sync 2, 128;" ::: "memory");
    }
  }
}
