#pragma once
// What the kernels need of the machine, and nothing else: types, bf16, cp.async, ldmatrix, mma.
//
// No NVIDIA header is included. The run-time compiler then needs no toolkit beside it, compiles in milliseconds, and
// every instruction used is visible here. The instruction level is that of sm_80.

typedef unsigned short u16;
typedef unsigned int u32;
typedef int i32;
typedef long long i64;
typedef unsigned long long u64;

// bf16 values are held as their bits.
typedef u16 bf16;

#define DEVICE __device__ __forceinline__
#define KERNEL extern "C" __global__ void

// Macros and enumerators, not constexpr variables: the compiler would place those in device memory as well.
#define FULL_WARP 0xffffffffu
#define LOG2_E 1.44269504088896341f
#define LN_2 0.693147180559945309f

DEVICE float infinity() { return __uint_as_float(0x7f800000u); }

// ---- bf16 ----------------------------------------------------------------------------------------------------------

DEVICE float low_half(u32 pair) { return __uint_as_float(pair << 16); }
DEVICE float high_half(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }

DEVICE bf16 to_bf16(float value) {
  bf16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

DEVICE u32 to_bf16_pair(float low, float high) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// Eight consecutive bf16 values, one 16-byte access.
DEVICE void unpack8(float (&to)[8], uint4 from) {
  const u32 pairs[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    to[2 * i] = low_half(pairs[i]);
    to[2 * i + 1] = high_half(pairs[i]);
  }
}

// N neighbouring elements: eight, one 16-byte access, or one where rows are no whole number of eights.
template <int N> DEVICE void load(float (&to)[N], const bf16 *from) {
  static_assert(N == 8 || N == 1, "eight elements or one");
  if constexpr (N == 8)
    unpack8(to, *(const uint4 *)from);
  else
    to[0] = low_half(*from);
}

template <int N> DEVICE void load(float (&to)[N], const float *from) {
  static_assert(N == 8 || N == 1, "eight elements or one");
  if constexpr (N == 8) {
    const float4 low = ((const float4 *)from)[0], high = ((const float4 *)from)[1];
    to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
    to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
  } else {
    to[0] = *from;
  }
}

template <int N> DEVICE void store(bf16 *to, const float (&from)[N]) {
  static_assert(N == 8 || N == 1, "eight elements or one");
  if constexpr (N == 8)
    *(uint4 *)to = make_uint4(to_bf16_pair(from[0], from[1]), to_bf16_pair(from[2], from[3]),
                              to_bf16_pair(from[4], from[5]), to_bf16_pair(from[6], from[7]));
  else
    *to = to_bf16(from[0]);
}

// ---- arithmetic ----------------------------------------------------------------------------------------------------

// 2^x. exp2(-inf) is +0, which is what a masked score needs.
DEVICE float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// log2(x).
DEVICE float log2_approx(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / x.
DEVICE float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// x / (1 + e^-x).
DEVICE float silu(float x) { return x / (1.0f + exp2_approx(-x * LOG2_E)); }

// tanh(x) to about a millionth of it; tanh.approx leaves a two-thousandth. Near zero, where one minus nearly
// one would lose digits, it is the series.
DEVICE float tanh_accurate(float x) {
  const float square = x * x;
  const float series = x + x * square * (-1.0f / 3.0f + square * (2.0f / 15.0f - square * (17.0f / 315.0f)));
  const float quotient = 1.0f - 2.0f * reciprocal_approx(1.0f + exp2_approx(2.0f * LOG2_E * x));
  return fabsf(x) < 0.2f ? series : quotient;
}

// ---- order --------------------------------------------------------------------------------------------------------

// Places numbers in an order that integers have: minus infinity lowest but above 0, both zeros alike, infinity, NaN
// highest.
DEVICE u32 ascending(float x) {
  if (x != x) return 0xffffffffu;
  const u32 bits = __float_as_uint(x + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// ---- sums in an order that only the number of threads decides, and what is highest or lowest of a warp --------------

// Every lane gets the sum over its warp.
DEVICE float warp_sum(float x) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes >>= 1) x += __shfl_xor_sync(FULL_WARP, x, lanes);
  return x;
}

DEVICE i32 warp_sum(i32 x) {
  i32 sum;
  asm volatile("redux.sync.add.s32 %0, %1, 0xffffffff;" : "=r"(sum) : "r"(x));
  return sum;
}

DEVICE u32 warp_max(u32 x) {
  u32 max;
  asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(max) : "r"(x));
  return max;
}

DEVICE u32 warp_min(u32 x) {
  u32 min;
  asm volatile("redux.sync.min.u32 %0, %1, 0xffffffff;" : "=r"(min) : "r"(x));
  return min;
}

// Every thread gets the sum over its block of WARPS warps. `partial` is shared and written once: two sums in a row need
// two of them, or a barrier between.
template <int WARPS> DEVICE float block_sum(float x, float (&partial)[WARPS]) {
  x = warp_sum(x);
  if (WARPS == 1) return x;
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
  x = partial[0];
#pragma unroll
  for (int warp = 1; warp < WARPS; warp++) x += partial[warp];
  return x;
}

// ---- tiles in shared memory ----------------------------------------------------------------------------------------

// Where a chunk of eight 16-bit elements lies in a tile whose rows have CHUNKS of them, in elements.
//
// The eight rows of an ldmatrix must meet eight different sets of banks. Rows whose chunks are a multiple of eight all
// start in the same one, multiples of four in two and multiples of two in four of them; so a chunk's place is turned by
// the row, its pair or its quadruple. Places stay within aligned groups of chunks, hence copies, which take consecutive
// chunks, meet no bank twice either.
template <int CHUNKS> DEVICE i32 chunk_place(i32 row, i32 chunk) {
  const i32 turn = CHUNKS % 8 == 0 ? row % 8 : CHUNKS % 4 == 0 ? row / 2 % 4 : row / 4 % 2;
  return (row * CHUNKS + (chunk ^ turn)) * 8;
}

// ---- asynchronous copies into shared memory ------------------------------------------------------------------------

DEVICE u32 shared_address(const void *pointer) { return (u32)__cvta_generic_to_shared(pointer); }

// Copies 16 bytes, or fills 16 bytes with zeros where `valid` is false (`from` is then not read).
DEVICE void copy16_async(void *to, const void *from, bool valid) {
  const u32 bytes = valid ? 16u : 0u;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
               "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
}

DEVICE void close_copy_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most NEWER of this thread's latest groups are still in flight.
template <int NEWER> DEVICE void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(NEWER) : "memory");
}

// ---- tensor cores --------------------------------------------------------------------------------------------------

// Loads four 8x8 matrices of 16-bit elements. Lanes 8i..8i+7 give the row addresses of matrix i.
DEVICE void load_matrix_x4(u32 (&to)[4], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

// Loads two such matrices. Lanes 0..15 give the row addresses.
DEVICE void load_matrix_x2(u32 (&to)[2], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(shared_address(row))
               : "memory");
}

// As load_matrix_x4, each matrix transposed.
DEVICE void load_matrix_x4_transposed(u32 (&to)[4], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

// c += a b for a 16x16 tile of a (row major), a 16x8 tile of b (column major) and a 16x8 tile of c.
DEVICE void mma_16x8x16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
               "{%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
