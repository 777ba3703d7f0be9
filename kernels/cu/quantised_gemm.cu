// A matrix product with weights of 8 or 4 bits in blocks of 32, with a bias or without one.
//
//   output[row, column] = sum over k of input[row, k] * weight(column, k) + bias[column]
//   weight(column, k) = bf16(scale[k / 32, column] * (code[column, k] - OFFSET) + minimum[k / 32, column])
//
// Weights become bf16 in registers, each rounded once. The result has the bits of a product with the matrix of those.
//
// Set by the host, which also checks them, beside what gemm.cuh says:
//   CODE_BITS   bits of a code: 8 or 4
//   OFFSET      the code that stands for zero
//   MINIMA      1: blocks have a minimum, which is added; 0: they have none
#include "product.cuh"

enum : int {
  BLOCK = 32,
  // Codes of a step, as 16-bit elements.
  CODES = BLOCK_DEPTH * CODE_BITS / 16,
  CODES_OF_BLOCK = BLOCK * CODE_BITS / 16,
  BLOCKS = BLOCK_DEPTH / BLOCK,
  PARTS = 1 + MINIMA,
};

DEVICE float from_half(u16 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

// Byte number `i` of `codes` without the offset. A byte below the exponent of 2^23 is that number and the byte.
DEVICE float decoded(u32 codes, int i) {
  return __uint_as_float(__byte_perm(codes, 0x4b000000u, 0x7540 + i)) - (8388608.0f + OFFSET);
}

struct QuantisedWeights {
  // A block, which has one scale.
  enum : int { UNIT = BLOCK };
  struct Panel {
    u16 codes[BLOCK_COLUMNS][CODES];
    // Scales, then minima.
    u16 scales[PARTS][BLOCKS][BLOCK_COLUMNS];
  };
  struct Unit {
    u32 codes[TILES_ACROSS / 2][CODE_BITS / 2];
    float scale[TILES_ACROSS], minimum[TILES_ACROSS];
  };

  Copies<BLOCK_COLUMNS, CODES> copies;
  const u16 *scales;
  i32 first_column, stride;

  template <class FIND>
  DEVICE QuantisedWeights(const FIND &find, const u16 *scales, i32 first_column, i32 stride)
      : copies(find), scales(scales), first_column(first_column), stride(stride) {}

  DEVICE void start(Panel &to, i32 step, i32 depth) const {
    enum : int { CHUNKS = BLOCK_COLUMNS / 8 };
    copies.start(to.codes, step, depth / BLOCK * CODES_OF_BLOCK);
    const i32 blocks = depth / BLOCK;
#pragma unroll 1
    for (i32 i = threadIdx.x; i < PARTS * BLOCKS * CHUNKS; i += THREADS) {
      const i32 part = i / (BLOCKS * CHUNKS), row = i / CHUNKS % BLOCKS, column = i % CHUNKS * 8;
      const i32 block = step * BLOCKS + row;
      const bool valid = block < blocks && first_column + column < stride;
      const u16 *from = scales + ((i64)part * blocks + block) * stride + first_column + column;
      copy16_async(&to.scales[part][row][column], from, valid);
    }
  }

  // The codes of sixteen columns in a block of 32 elements: of 8 bits two chunks of a row, of 4 bits one.
  DEVICE static void load_codes(u32 (&to)[4], const Panel &panel, i32 first, i32 block) {
    const i32 lane = threadIdx.x % 32, r = first + lane % 8 + lane / 16 * 8;
    load_matrix_x4(to, &panel.codes[r][place<CODES>(r, block * CODES_OF_BLOCK + lane / 8 % 2 * 8)]);
  }

  DEVICE static void load_codes(u32 (&to)[2], const Panel &panel, i32 first, i32 block) {
    // Only the addresses of the first sixteen lanes count.
    const i32 r = first + threadIdx.x % 16;
    load_matrix_x2(to, &panel.codes[r][place<CODES>(r, block * CODES_OF_BLOCK)]);
  }

  DEVICE static Unit load(const Panel &panel, i32 k) {
    const i32 lane = threadIdx.x % 32, block = k / BLOCK;
    Unit unit;
#pragma unroll
    for (int j = 0; j < TILES_ACROSS / 2; j++) load_codes(unit.codes[j], panel, warp_column() + j * 16, block);
#pragma unroll
    for (int j = 0; j < TILES_ACROSS; j++) {
      const i32 column = warp_column() + j * 8 + lane / 4;
      unit.scale[j] = from_half(panel.scales[0][block][column]);
      unit.minimum[j] = MINIMA ? from_half(panel.scales[PARTS - 1][block][column]) : 0.0f;
    }
    return unit;
  }

  // Four bytes of a lane are its two elements and, eight further, the other two: the host has put them together. Of a
  // byte with two codes the low one is of the first sixteen elements.
  DEVICE static void tile(u32 (&b)[2], const Unit &unit, int sixteen, int j) {
    const u32 codes = CODE_BITS == 8 ? unit.codes[j / 2][(j % 2 * 2 + sixteen) % (CODE_BITS / 2)]
                                     : unit.codes[j / 2][j % 2] >> sixteen * 4 & 0x0f0f0f0fu;
    float weight[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      weight[i] = decoded(codes, i) * unit.scale[j];
      if (MINIMA) weight[i] += unit.minimum[j];
    }
    b[0] = to_bf16_pair(weight[0], weight[1]);
    b[1] = to_bf16_pair(weight[2], weight[3]);
  }
};

typedef Stage<QuantisedWeights> QuantisedStage;

// input     [rows, depth]; depth is a multiple of 32
// codes     [columns, depth] of CODE_BITS, ordered as `tile` says
// scales    [PARTS, depth / 32, stride], half precision: a scale, or a minimum, for each column
// bias      [columns], or null
// output    [rows, columns], f32 or bf16 as `is_f32` says: the sums, or those rounded once
//
// Grid (row blocks * column blocks).
extern "C" __global__ void __launch_bounds__(THREADS)
quantised_gemm(const bf16 *input, const u16 *codes, const u16 *scales, i32 stride, const float *bias, void *output,
               i32 is_f32, i32 rows, i32 columns, i32 depth) {
  extern __shared__ __align__(16) unsigned char memory[];

  const BlockPlace at = block_place(rows, columns);
  const i32 width = depth / BLOCK * CODES_OF_BLOCK;
  const InputRows input_rows([&](i32 r) { return row_in(input, at.first_row + r, rows, depth); });
  const QuantisedWeights weights([&](i32 c) { return row_in(codes, at.first_column + c, columns, width); }, scales,
                                 at.first_column, stride);
  Sums sum = {};
  multiply_rows(sum, (QuantisedStage *)memory, input_rows, weights, depth);
  store_sums(sum, bias, output, is_f32, at, rows, columns);
}
