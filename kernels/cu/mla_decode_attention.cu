// Attention of one query token per request over a paged pool of compressed keys and values (multi-head latent
// attention), with the weights that expand them absorbed: all query heads share one row per token, of which the first
// VALUE_DIM elements are the value as well. The context is split across blocks as in paged_decode_attention.cu, and
// merge_decode_splits.cu joins the parts.
//
// A block takes one request, sixteen query heads and one run of SPLIT_TOKENS tokens. In every step its warps share the
// scores of 32 tokens, by halves of the tokens and quarters of the depth; then all threads share the softmax; then the
// warps share the result, by columns. A row is read into shared memory once for all three.
//
// Set by the host beside the sizes of attention.cuh, HEAD_DIM being the elements of a row and KV_HEADS 1:
//   VALUE_DIM      elements of a value, a multiple of 128
//   SPLIT_TOKENS   tokens a block covers
//   SHARED_BYTES   size of Shared
#include "attention.cuh"

enum : int {
  WARPS = 8,
  THREADS = WARPS * 32,
  ROWS = 16,
  KEYS = 32,
  STAGES = 2,
  // Parts of the depth, and tiles of 16 elements that a part has at most.
  PARTS = 4,
  TILES = HEAD_DIM / 16,
  PART_TILES = (TILES + PARTS - 1) / PARTS,
  HEAD_BLOCKS = (QUERY_HEADS + ROWS - 1) / ROWS,
  // Of the result, those of a warp.
  COLUMNS = VALUE_DIM / WARPS,
  PASSES = (KEYS * CHUNKS + THREADS - 1) / THREADS,
  // Eight more than there are, so that four rows of pairs meet 32 banks.
  SCORE_STRIDE = KEYS + 8,
  // Threads that share the softmax of a row.
  ROW_THREADS = THREADS / ROWS,
};
static_assert(KEYS == 2 * ROW_THREADS, "a thread has two weights of a row");

struct Shared {
  bf16 rows[STAGES][KEYS * HEAD_DIM];
  union {
    bf16 query[ROWS * HEAD_DIM];
    // What the parts of the depth give, once the queries are in registers.
    float score[PARTS][ROWS][SCORE_STRIDE];
  };
  bf16 weight[ROWS * KEYS];
  // Where the rows of a step start in the pool, -1 past the last.
  i64 offsets[STAGES][KEYS];
  // What the results so far are multiplied by.
  float keep[ROWS];
  // At the end.
  float max[ROWS];
  float sum[ROWS];
};
static_assert(sizeof(Shared) == SHARED_BYTES, "the host allocates Shared");

// Where a weight lies: chunks are turned by pairs of rows, so that eight rows of a chunk meet 32 banks.
DEVICE i32 weight_place(i32 row, i32 key) { return row * KEYS + (key / 8 ^ row / 2 % 4) * 8 + key % 8; }

// query           [requests, QUERY_HEADS, HEAD_DIM]
// keys            pool of rows, addressed by the strides (in elements)
// block_table     [slots, table_width], page numbers; entries past a context are not read
// slots           [requests], the block table's row for a request; -1 marks padding
// context         [requests], tokens that the query sees
// output, lse     [requests, QUERY_HEADS, VALUE_DIM] and [requests, QUERY_HEADS], as of the other attention kernels;
//                 written where there is one split
// split_output, split_lse   [requests, QUERY_HEADS, splits, VALUE_DIM] and [.., splits], written where there are more
//
// Grid (requests, HEAD_BLOCKS, splits).
extern "C" __global__ void __launch_bounds__(THREADS, 2)
mla_decode_attention(const bf16 *query, const bf16 *keys, const i32 *block_table, const i32 *slots, const i32 *context,
                     bf16 *output, float *lse, float *split_output, float *split_lse, i64 page_stride,
                     i64 token_stride, i32 table_width, i32 splits, float scale) {
  extern __shared__ __align__(16) unsigned char memory[];
  Shared &shared = *(Shared *)memory;

  const i64 request = blockIdx.x;
  const i32 first_head = blockIdx.y * ROWS;
  const i32 heads = QUERY_HEADS - first_head;
  const i64 first_row = request * QUERY_HEADS + first_head;
  const i32 split = blockIdx.z;
  const i32 warp = threadIdx.x / 32;
  const i32 lane = threadIdx.x % 32;
  const i32 slot = slots[request];
  const i32 length = slot < 0 ? 0 : context[request];
  const i32 begin = split * SPLIT_TOKENS;
  const i32 end = min(length, begin + SPLIT_TOKENS);
  const i32 steps = (end - begin + KEYS - 1) / KEYS;

  // The queries, zeros where there is no head.
  for (i32 i = threadIdx.x; i < ROWS * CHUNKS && steps > 0; i += THREADS) {
    const i32 row = i / CHUNKS, chunk = i % CHUNKS;
    const bool exists = row < heads;
    copy16_async(&shared.query[place(row, chunk)], query + (first_row + row) * HEAD_DIM + chunk * 8, exists);
  }
  close_copy_group();

  // Of padding this is no address, and nothing is read from it.
  const i32 *pages = block_table + (i64)slot * table_width;
  // Looks up where the rows of a step are.
  const auto find_keys = [&](i32 step) {
    const i32 key = begin + step * KEYS + threadIdx.x;
    if (threadIdx.x < KEYS) {
      // Rows past the context may hold anything, NaN included: they are not read, so zero times NaN cannot arise.
      shared.offsets[step % STAGES][threadIdx.x] =
          key < end ? token_offset(pages, key, page_stride, token_stride) : -1;
    }
  };
  // Starts the copies of a step. Past the last step the group is empty.
  const auto start_copies = [&](i32 step) {
    if (step < steps) {
      // Nothing waits for these: more at once would cost registers only.
#pragma unroll 3
      for (int pass = 0; pass < PASSES; pass++) {
        const i32 i = pass * THREADS + threadIdx.x;
        if (KEYS * CHUNKS % THREADS != 0 && i >= KEYS * CHUNKS) break;
        const i32 row = i / CHUNKS, chunk = i % CHUNKS;
        const i64 offset = shared.offsets[step % STAGES][row];
        const bool visible = offset >= 0;
        copy16_async(&shared.rows[step % STAGES][place(row, chunk)], keys + (visible ? offset + chunk * 8 : 0), visible);
      }
    }
    close_copy_group();
  };

  find_keys(0);
  find_keys(1);
  __syncthreads();
  start_copies(0);
  wait_for_copies<1>();
  __syncthreads();

  // A warp has the scores of half the tokens, over a part of the depth.
  const i32 half_of_keys = warp % 2 * 16;
  const i32 part = warp / 2;
  u32 query_tiles[PART_TILES][4];
#pragma unroll
  for (int k = 0; k < PART_TILES; k++) {
    const i32 tile = part * PART_TILES + k;
    if (TILES % PARTS != 0 && tile >= TILES) break;
    if (steps > 0) load_matrix_x4(query_tiles[k], &shared.query[place(lane % 16, tile * 2 + lane / 16)]);
  }

  // The softmax of a row, by sixteen neighbouring threads.
  const i32 softmax_row = threadIdx.x / ROW_THREADS;
  const i32 softmax_key = threadIdx.x % ROW_THREADS * 2;
  const float factor = score_factor(scale, 0.0f);
  float max = -infinity(), sum = 0.0f;

  // A lane holds, of each 16x8 tile of the result, two neighbouring columns of rows lane/4 and lane/4 + 8.
  float value[COLUMNS / 8][4] = {};

#pragma unroll 1
  for (i32 step = 0; step < steps; step++) {
    wait_for_copies<0>();
    // This step's copies of all threads are now visible to all; so is where the next step's rows are; and all have
    // finished reading what the next copies, the next look-up and the scores overwrite.
    __syncthreads();
    start_copies(step + 1);
    find_keys(step + 2);
    const bf16 *rows = shared.rows[step % STAGES];

    float score[2][4] = {};
#pragma unroll
    for (int k = 0; k < PART_TILES; k++) {
      const i32 tile = part * PART_TILES + k;
      if (TILES % PARTS != 0 && tile >= TILES) break;
      u32 b[4];
      load_matrix_x4(b, &rows[place(half_of_keys + lane % 8 + lane / 16 * 8, tile * 2 + lane / 8 % 2)]);
      mma_16x8x16(score[0], query_tiles[k], b[0], b[1]);
      mma_16x8x16(score[1], query_tiles[k], b[2], b[3]);
    }
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
      for (int half = 0; half < 2; half++)
        *(float2 *)&shared.score[part][half * 8 + lane / 4][half_of_keys + j * 8 + lane % 4 * 2] =
            make_float2(score[j][2 * half], score[j][2 * half + 1]);
    // All parts of the scores are there.
    __syncthreads();

    float two[2] = {0.0f, 0.0f};
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
      const float2 of_part = *(const float2 *)&shared.score[p][softmax_row][softmax_key];
      two[0] += of_part.x;
      two[1] += of_part.y;
    }
    float new_max = max;
#pragma unroll
    for (int t = 0; t < 2; t++) {
      const bool visible = begin + step * KEYS + softmax_key + t < end;
      two[t] = visible ? two[t] * factor : -infinity();
      new_max = fmaxf(new_max, two[t]);
    }
#pragma unroll
    for (int lanes = ROW_THREADS / 2; lanes > 0; lanes >>= 1)
      new_max = fmaxf(new_max, __shfl_xor_sync(FULL_WARP, new_max, lanes));
    // A step's first token is visible, so this is not minus infinity.
    const float keep = exp2_approx(max - new_max);
    max = new_max;
#pragma unroll
    for (int t = 0; t < 2; t++) two[t] = exp2_approx(two[t] - new_max);
    sum = sum * keep + two[0] + two[1];
    *(u32 *)&shared.weight[weight_place(softmax_row, softmax_key)] = to_bf16_pair(two[0], two[1]);
    if (softmax_key == 0) shared.keep[softmax_row] = keep;
    // All weights are there.
    __syncthreads();

#pragma unroll
    for (int half = 0; half < 2; half++) {
      const float keep = shared.keep[half * 8 + lane / 4];
#pragma unroll
      for (int i = 0; i < COLUMNS / 8; i++) {
        value[i][2 * half] *= keep;
        value[i][2 * half + 1] *= keep;
      }
    }
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++) {
      u32 a[4];
      load_matrix_x4(a, &shared.weight[weight_place(lane % 16, k * 16 + lane / 16 * 8)]);
#pragma unroll
      for (int i = 0; i < COLUMNS / 16; i++) {
        u32 b[4];
        load_matrix_x4_transposed(
            b, &rows[place(k * 16 + lane % 16, warp * (COLUMNS / 8) + i * 2 + lane / 16)]);
        mma_16x8x16(value[2 * i], a, b[0], b[1]);
        mma_16x8x16(value[2 * i + 1], a, b[2], b[3]);
      }
    }
  }

#pragma unroll
  for (int lanes = ROW_THREADS / 2; lanes > 0; lanes >>= 1) sum += __shfl_xor_sync(FULL_WARP, sum, lanes);
  if (softmax_key == 0) {
    shared.max[softmax_row] = max;
    shared.sum[softmax_row] = sum;
  }
  __syncthreads();

#pragma unroll
  for (int half = 0; half < 2; half++) {
    const i32 row = half * 8 + lane / 4;
    if (row >= heads) continue;
    const bool empty = shared.max[row] == -infinity();
    const float share = empty ? 0.0f : 1.0f / shared.sum[row];
    const i64 place_of_row = (first_row + row) * splits + split;
    if (warp == 0 && lane % 4 == 0)
      // Minus infinity where nothing is visible, since the sum is zero.
      (splits == 1 ? lse : split_lse)[place_of_row] = LN_2 * (shared.max[row] + log2_approx(shared.sum[row]));
#pragma unroll
    for (int i = 0; i < COLUMNS / 8; i++) {
      const i64 to = place_of_row * VALUE_DIM + warp * COLUMNS + i * 8 + lane % 4 * 2;
      const float low = value[i][2 * half] * share, high = value[i][2 * half + 1] * share;
      if (splits == 1)
        *(u32 *)(output + to) = to_bf16_pair(low, high);
      else
        *(float2 *)(split_output + to) = make_float2(low, high);
    }
  }
}
