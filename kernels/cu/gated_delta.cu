// Linear attention by the gated delta rule: a state that forgets, and learns what it got wrong. For every token
//
//   S <- decay S;   u = beta (v - S k);   S <- S + u k^T;   o = S q scale
//
// where S is [VALUE_DIM, KEY_DIM], decay = exp(-exp(a_log) softplus(a + dt_bias)) and beta = sigmoid(b). Key heads are
// shared by neighbouring value heads. With NORMALISE, q and k are brought to length one.
//
// gated_delta_decode takes one token per request. Runs of tokens go through gated_delta_prepare and then
// gated_delta_scan, in chunks of 64 which are counted from the run's first token. In a chunk whose logarithms of decay
// add up to G, and with S as it was before the chunk,
//
//   u_t = beta_t (v_t - e^G_t S k_t - sum over i < t of e^(G_t - G_i) (k_t k_i) u_i)
//
// is a triangular system for all u of the chunk. The preparation solves it for two right sides, U for the values and W
// for the keys, so that u = U - W S; it needs no state, and all chunks are prepared at once. The scan then goes from
// chunk to chunk:
//
//   o_t = scale (e^G_t S q_t + sum over i <= t of e^(G_t - G_i) (q_t k_i) u_i)
//   S  <- e^G_64 S + sum over i of e^(G_64 - G_i) u_i k_i^T
//
// Set by the host, which also checks them:
//   KEY_HEADS      heads of queries and keys; divides VALUE_HEADS
//   VALUE_HEADS    heads of values, states and results
//   KEY_DIM        64 or 128
//   VALUE_DIM      a multiple of 32
//   NORMALISE      1 if queries and keys are brought to length one
#include "common.cuh"

enum : int {
  CHUNK = 64,
  CHUNKS_OF_KEY = KEY_DIM / 8,
  HEADS_PER_KEY = VALUE_HEADS / KEY_HEADS,
};

// What is added to the square of a length that is divided by.
#define LENGTH_EPSILON 1e-6f

// e^x to about the last digit, for what is no overflow. The product with log2(e) is exact in two parts.
DEVICE float exp_accurate(float x) {
  // Below this the result is zero anyway, and the parts of an infinite product would be NaN.
  x = fmaxf(x, -126.0f);
  const float whole = x * LOG2_E;
  const float rest = fmaf(x, LOG2_E, -whole) + x * 1.925963e-8f;
  const float power = exp2_approx(whole);
  return fmaf(power, rest * LN_2, power);
}

// ln(1 + y) for y from 0 to 1: the series of the inverse hyperbolic tangent.
DEVICE float log1p_accurate(float y) {
  const float z = y / (2.0f + y), square = z * z;
  const float series = 1.0f / 7 + square * (1.0f / 9 + square * (1.0f / 11 + square * (1.0f / 13)));
  return 2.0f * z * (1.0f + square * (1.0f / 3 + square * (1.0f / 5 + square * series)));
}

// The logarithm of what is left of a state after a token.
DEVICE float log_decay(float a, float a_log, float dt_bias) {
  const float x = a + dt_bias;
  const float softplus = fmaxf(x, 0.0f) + log1p_accurate(exp_accurate(-fabsf(x)));
  return -exp_accurate(a_log) * softplus;
}

DEVICE float sigmoid(float x) {
  const float y = exp_accurate(-fabsf(x));
  return (x >= 0.0f ? 1.0f : y) / (1.0f + y);
}

DEVICE float value_of(bf16 bits) { return low_half(bits); }

// ---- one token -----------------------------------------------------------------------------------------------------

enum : int {
  DECODE_THREADS = 128,
  // A row of a state is read by eight lanes, four neighbouring elements each at a time.
  ROW_LANES = 8,
  PIECES = KEY_DIM / (4 * ROW_LANES),
  ROWS_AT_ONCE = DECODE_THREADS / ROW_LANES,
  DECODE_ROWS = 32,
};

DEVICE float row_sum(float x) {
#pragma unroll
  for (int lanes = ROW_LANES / 2; lanes > 0; lanes >>= 1) x += __shfl_xor_sync(FULL_WARP, x, lanes);
  return x;
}

// query, key, value   rows of KEY_HEADS * KEY_DIM, as many, and VALUE_HEADS * VALUE_DIM elements, a row per request,
//                     each `stride` elements after the one before
// a, b                rows of VALUE_HEADS elements
// a_log, dt_bias      [VALUE_HEADS]
// state               [slot_count, VALUE_HEADS, VALUE_DIM, KEY_DIM]
// slots               [requests]; one that there is not, such as -1, marks padding: its output is zeros
// output              rows of VALUE_HEADS * VALUE_DIM elements
//
// Grid (requests, VALUE_HEADS, VALUE_DIM / DECODE_ROWS). A block takes some rows of a state.
extern "C" __global__ void __launch_bounds__(DECODE_THREADS)
gated_delta_decode(const bf16 *query, i64 query_stride, const bf16 *key, i64 key_stride, const bf16 *value,
                   i64 value_stride, const bf16 *a, i64 a_stride, const bf16 *b, i64 b_stride, const float *a_log,
                   const float *dt_bias, float *state, i32 slot_count, const i32 *slots, bf16 *output,
                   i64 output_stride, float scale) {
  const i64 request = blockIdx.x;
  const i32 head = blockIdx.y;
  const i32 first_row = blockIdx.z * DECODE_ROWS + threadIdx.x / ROW_LANES;
  const i32 lane = threadIdx.x % ROW_LANES;
  const i32 slot = slots[request];
  output += request * output_stride + head * VALUE_DIM;
  if ((u32)slot >= (u32)slot_count) {
    for (i32 row = first_row; row < (blockIdx.z + 1) * DECODE_ROWS; row += ROWS_AT_ONCE) output[row] = 0;
    return;
  }

  const i32 key_head = head / HEADS_PER_KEY;
  query += request * query_stride + key_head * KEY_DIM;
  key += request * key_stride + key_head * KEY_DIM;
  float q[PIECES][4], k[PIECES][4];
  float query_square = 0.0f, key_square = 0.0f, product = 0.0f;
#pragma unroll
  for (int piece = 0; piece < PIECES; piece++) {
    const i32 element = (piece * ROW_LANES + lane) * 4;
    const uint2 of_query = *(const uint2 *)(query + element), of_key = *(const uint2 *)(key + element);
    q[piece][0] = low_half(of_query.x), q[piece][1] = high_half(of_query.x);
    q[piece][2] = low_half(of_query.y), q[piece][3] = high_half(of_query.y);
    k[piece][0] = low_half(of_key.x), k[piece][1] = high_half(of_key.x);
    k[piece][2] = low_half(of_key.y), k[piece][3] = high_half(of_key.y);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      query_square = fmaf(q[piece][i], q[piece][i], query_square);
      key_square = fmaf(k[piece][i], k[piece][i], key_square);
      product = fmaf(q[piece][i], k[piece][i], product);
    }
  }
  query_square = row_sum(query_square);
  key_square = row_sum(key_square);
  const float query_factor = scale * (NORMALISE ? rsqrtf(query_square + LENGTH_EPSILON) : 1.0f);
  const float key_factor = NORMALISE ? rsqrtf(key_square + LENGTH_EPSILON) : 1.0f;
  product = row_sum(product) * key_factor;

  const float decay = exp_accurate(log_decay(value_of(a[request * a_stride + head]), a_log[head], dt_bias[head]));
  const float beta = sigmoid(value_of(b[request * b_stride + head]));
  value += request * value_stride + head * VALUE_DIM;
  state += ((i64)slot * VALUE_HEADS + head) * VALUE_DIM * KEY_DIM;
#pragma unroll
  for (int round = 0; round < DECODE_ROWS / ROWS_AT_ONCE; round++) {
    const i32 row = first_row + round * ROWS_AT_ONCE;
    float4 *of_row = (float4 *)(state + (i64)row * KEY_DIM);
    float s[PIECES][4];
    float with_key = 0.0f, with_query = 0.0f;
#pragma unroll
    for (int piece = 0; piece < PIECES; piece++) {
      const float4 four = of_row[piece * ROW_LANES + lane];
      s[piece][0] = four.x, s[piece][1] = four.y, s[piece][2] = four.z, s[piece][3] = four.w;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        s[piece][i] *= decay;
        with_key = fmaf(s[piece][i], k[piece][i], with_key);
        with_query = fmaf(s[piece][i], q[piece][i], with_query);
      }
    }
    with_key = row_sum(with_key) * key_factor;
    with_query = row_sum(with_query);
    const float u = beta * (value_of(value[row]) - with_key);
#pragma unroll
    for (int piece = 0; piece < PIECES; piece++) {
#pragma unroll
      for (int i = 0; i < 4; i++) s[piece][i] = fmaf(u * key_factor, k[piece][i], s[piece][i]);
      of_row[piece * ROW_LANES + lane] = make_float4(s[piece][0], s[piece][1], s[piece][2], s[piece][3]);
    }
    // The new state times the query, of which the old state's part is there already.
    if (lane == 0) output[row] = to_bf16(query_factor * fmaf(u, product, with_query));
  }
}

// ---- runs of tokens ------------------------------------------------------------------------------------------------

// A request's first token, or the end of the last one's. Nothing outside the batch is ever written, whatever the starts
// are.
DEVICE i32 start_of(const i32 *starts, i32 request, i32 tokens) { return min(max(starts[request], 0), tokens); }

// Where a chunk of a run is.
struct Chunk {
  // Its first token in the batch, and how many there are from it to the end of the run; past the end none, or fewer.
  i32 start;
  i32 tokens;
  // Its place in the workspace. A run's chunks follow one another, and no two runs meet: there is a place more for each
  // run than its tokens before fill.
  i64 place;
};

// The chunk `number` of a request's run, which goes from token `first` to `end`.
DEVICE Chunk find_chunk(i32 first, i32 end, i32 request, i32 number) {
  const i32 start = first + number * CHUNK;
  return {start, end - start, (i64)first / CHUNK + request + number};
}

// What the preparation leaves of a chunk and a value head.
struct Prepared {
  bf16 w[CHUNK][KEY_DIM];
  bf16 u[CHUNK][VALUE_DIM];
  // Queries times earlier keys, with decay, scale and lengths.
  bf16 weight[CHUNK][CHUNK];
  // What a query's product with the state is multiplied by.
  float query_factor[CHUNK];
  // What is left at the end of the chunk of what a token has added, over its key's length.
  float key_factor[CHUNK];
  // What is left of the state before the chunk.
  float decay;
  float unused[3];
};
static_assert(sizeof(Prepared) == PREPARED_BYTES, "the host allocates Prepared");

enum : int {
  PREPARE_WARPS = 4,
  PREPARE_THREADS = PREPARE_WARPS * 32,
  // Four more than there are, so that rows start in different banks.
  SYSTEM_STRIDE = CHUNK + 4,
};

struct PrepareShared {
  bf16 key[CHUNK * KEY_DIM];
  union {
    bf16 query[CHUNK * KEY_DIM];
    // What tokens have found so far, column by column of the right sides, once the queries are done with.
    float found[CHUNK][PREPARE_THREADS];
  };
  // Column by column: what a token takes of every later one. What is not later is not looked at.
  __align__(16) float system[CHUNK][SYSTEM_STRIDE];
  // Logarithms of decay, from the chunk's start to every token.
  float decay[CHUNK];
  float beta[CHUNK];
  // One over the lengths, and of queries times the scale.
  float key_length[CHUNK];
  float query_length[CHUNK];
};
static_assert(sizeof(PrepareShared) == PREPARE_SHARED_BYTES, "the host allocates PrepareShared");

// starts              [requests + 1], ascending: each request's first token, and the end of the last one's
// prepared            a place for every 64 tokens and one more for every request, for each value head
// The other arguments are those of gated_delta_decode, with a row per token.
//
// Grid (requests, chunks of the longest run, VALUE_HEADS).
// Shared memory has room for two or three blocks. Without a word on their number, the compiler takes so few registers that
// there would be more, and spills.
extern "C" __global__ void __launch_bounds__(PREPARE_THREADS, 2)
gated_delta_prepare(const bf16 *query, i64 query_stride, const bf16 *key, i64 key_stride, const bf16 *value,
                    i64 value_stride, const bf16 *a, i64 a_stride, const bf16 *b, i64 b_stride, const float *a_log,
                    const float *dt_bias, i32 slot_count, const i32 *slots, const i32 *starts, i32 tokens,
                    Prepared *prepared, float scale) {
  extern __shared__ __align__(16) unsigned char memory[];
  PrepareShared &shared = *(PrepareShared *)memory;

  const i32 request = blockIdx.x;
  const i32 head = blockIdx.z;
  const i32 key_head = head / HEADS_PER_KEY;
  const Chunk chunk =
      find_chunk(start_of(starts, request, tokens), start_of(starts, request + 1, tokens), request, blockIdx.y);
  if (chunk.tokens <= 0 || (u32)slots[request] >= (u32)slot_count) return;
  prepared += chunk.place * VALUE_HEADS + head;
  const i32 warp = threadIdx.x / 32;
  const i32 lane = threadIdx.x % 32;

  query += chunk.start * query_stride + key_head * KEY_DIM;
  key += chunk.start * key_stride + key_head * KEY_DIM;
  for (i32 i = threadIdx.x; i < CHUNK * CHUNKS_OF_KEY; i += PREPARE_THREADS) {
    const i32 row = i / CHUNKS_OF_KEY, piece = i % CHUNKS_OF_KEY;
    const bool exists = row < chunk.tokens;
    const i32 place = chunk_place<CHUNKS_OF_KEY>(row, piece);
    copy16_async(&shared.query[place], query + row * query_stride + piece * 8, exists);
    copy16_async(&shared.key[place], key + row * key_stride + piece * 8, exists);
  }
  close_copy_group();

  // The decay of two neighbouring tokens per lane, then of all before them. Past the end nothing decays and nothing is
  // learnt.
  if (warp == 0) {
    float g[2], beta[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const i32 row = lane * 2 + i;
      const i64 token = chunk.start + row;
      const bool exists = row < chunk.tokens;
      g[i] = exists ? log_decay(value_of(a[token * a_stride + head]), a_log[head], dt_bias[head]) : 0.0f;
      beta[i] = exists ? sigmoid(value_of(b[token * b_stride + head])) : 0.0f;
    }
    float until = g[0] + g[1];
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes <<= 1) {
      const float before = __shfl_up_sync(FULL_WARP, until, lanes);
      if (lane >= lanes) until += before;
    }
    *(float2 *)&shared.decay[lane * 2] = make_float2(until - g[1], until);
    *(float2 *)&shared.beta[lane * 2] = make_float2(beta[0], beta[1]);
  }
  wait_for_copies<0>();
  __syncthreads();

  // The lengths: eight threads to a row.
#pragma unroll
  for (int row = threadIdx.x / 8; row < CHUNK; row += PREPARE_THREADS / 8) {
    float query_square = 0.0f, key_square = 0.0f;
#pragma unroll
    for (int piece = threadIdx.x % 8; piece < CHUNKS_OF_KEY; piece += 8) {
      float q[8], k[8];
      load(q, &shared.query[chunk_place<CHUNKS_OF_KEY>(row, piece)]);
      load(k, &shared.key[chunk_place<CHUNKS_OF_KEY>(row, piece)]);
#pragma unroll
      for (int i = 0; i < 8; i++) {
        query_square = fmaf(q[i], q[i], query_square);
        key_square = fmaf(k[i], k[i], key_square);
      }
    }
#pragma unroll
    for (int lanes = 4; lanes > 0; lanes >>= 1) {
      query_square += __shfl_xor_sync(FULL_WARP, query_square, lanes);
      key_square += __shfl_xor_sync(FULL_WARP, key_square, lanes);
    }
    shared.query_length[row] = scale * (NORMALISE ? rsqrtf(query_square + LENGTH_EPSILON) : 1.0f);
    shared.key_length[row] = NORMALISE ? rsqrtf(key_square + LENGTH_EPSILON) : 1.0f;
  }
  __syncthreads();

  // Products of keys, and of queries, with keys: a warp has sixteen rows, and what is above the diagonal is not needed.
  const i32 first_row = warp * 16;
  float of_keys[CHUNK / 8][4] = {}, of_queries[CHUNK / 8][4] = {};
#pragma unroll
  for (int k = 0; k < KEY_DIM / 16; k++) {
    u32 keys[4], queries[4];
    const i32 place = chunk_place<CHUNKS_OF_KEY>(first_row + lane % 16, k * 2 + lane / 16);
    load_matrix_x4(keys, &shared.key[place]);
    load_matrix_x4(queries, &shared.query[place]);
#pragma unroll
    for (int j = 0; j < CHUNK / 16; j++) {
      if (j > warp) break;
      u32 with[4];
      const i32 column = j * 16 + lane % 8 + lane / 16 * 8;
      load_matrix_x4(with, &shared.key[chunk_place<CHUNKS_OF_KEY>(column, k * 2 + lane / 8 % 2)]);
      mma_16x8x16(of_keys[2 * j], keys, with[0], with[1]);
      mma_16x8x16(of_keys[2 * j + 1], keys, with[2], with[3]);
      mma_16x8x16(of_queries[2 * j], queries, with[0], with[1]);
      mma_16x8x16(of_queries[2 * j + 1], queries, with[2], with[3]);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const i32 row = first_row + half * 8 + lane / 4;
    const float learning = shared.beta[row] * shared.key_length[row];
#pragma unroll
    for (int j = 0; j < CHUNK / 8; j++) {
      const i32 column = j * 8 + lane % 4 * 2;
      float weight[2];
#pragma unroll
      for (int t = 0; t < 2; t++) {
        // Above the diagonal the decay would be a growth, without end.
        const float since = column + t <= row ? shared.decay[row] - shared.decay[column + t] : -infinity();
        const float left = exp_accurate(since) * shared.key_length[column + t];
        weight[t] = left * shared.query_length[row] * of_queries[j][2 * half + t];
        shared.system[column + t][row] = left * learning * of_keys[j][2 * half + t];
      }
      *(u32 *)&prepared->weight[row][column] = to_bf16_pair(weight[0], weight[1]);
    }
  }
  if (threadIdx.x < CHUNK) {
    const i32 row = threadIdx.x;
    prepared->query_factor[row] = shared.query_length[row] * exp_accurate(shared.decay[row]);
    prepared->key_factor[row] = shared.key_length[row] * exp_accurate(shared.decay[CHUNK - 1] - shared.decay[row]);
    prepared->decay = exp_accurate(shared.decay[CHUNK - 1]);
  }
  __syncthreads();

  // Every thread solves the system for a column of the right sides, sixteen tokens at a time: from what is wanted of them,
  // what the tokens before have found is taken, in their order.
  value += chunk.start * value_stride + head * VALUE_DIM;
#pragma unroll 1
  for (i32 column = threadIdx.x; column < VALUE_DIM + KEY_DIM; column += PREPARE_THREADS) {
    const bool is_value = column < VALUE_DIM;
    const i32 element = is_value ? column : column - VALUE_DIM;
    bf16 *to = is_value ? &prepared->u[0][element] : &prepared->w[0][element];
    const i32 stride = is_value ? VALUE_DIM : KEY_DIM;
#pragma unroll 1
    for (i32 first = 0; first < CHUNK; first += 16) {
      float x[16];
#pragma unroll
      for (int i = 0; i < 16; i++) {
        const i32 row = first + i;
        if (is_value) {
          x[i] = row < chunk.tokens ? shared.beta[row] * value_of(value[row * value_stride + element]) : 0.0f;
        } else {
          const bf16 k = shared.key[chunk_place<CHUNKS_OF_KEY>(row, element / 8) + element % 8];
          x[i] = shared.beta[row] * exp_accurate(shared.decay[row]) * shared.key_length[row] * value_of(k);
        }
      }
#pragma unroll 2
      for (i32 before = 0; before < first; before++) {
        const float found = shared.found[before][threadIdx.x];
#pragma unroll
        for (int i = 0; i < 16; i += 4) {
          const float4 taken = *(const float4 *)&shared.system[before][first + i];
          x[i] = fmaf(-taken.x, found, x[i]);
          x[i + 1] = fmaf(-taken.y, found, x[i + 1]);
          x[i + 2] = fmaf(-taken.z, found, x[i + 2]);
          x[i + 3] = fmaf(-taken.w, found, x[i + 3]);
        }
      }
#pragma unroll
      for (int i = 0; i < 16; i++) {
#pragma unroll
        for (int later = i + 1; later < 16; later++)
          x[later] = fmaf(-shared.system[first + i][first + later], x[i], x[later]);
        shared.found[first + i][threadIdx.x] = x[i];
        to[(first + i) * stride] = to_bf16(x[i]);
      }
    }
  }
}

enum : int {
  SCAN_WARPS = 4,
  SCAN_THREADS = SCAN_WARPS * 32,
  // Rows of a state that a block takes, and their chunks.
  ROWS = 32,
  CHUNKS_OF_ROW = ROWS / 8,
  // Columns of a state that a warp takes.
  COLUMNS = KEY_DIM / SCAN_WARPS,
};

struct ScanShared {
  bf16 w[CHUNK * KEY_DIM];
  bf16 query[CHUNK * KEY_DIM];
  bf16 key[CHUNK * KEY_DIM];
  bf16 weight[CHUNK * CHUNK];
  bf16 u[CHUNK * ROWS];
  // What the chunk's tokens have learnt, and what is left of it at the end.
  bf16 learnt[CHUNK * ROWS];
  bf16 left[CHUNK * ROWS];
  // The state before the chunk.
  bf16 state[ROWS * KEY_DIM];
};
static_assert(sizeof(ScanShared) == SCAN_SHARED_BYTES, "the host allocates ScanShared");

// The part of a state that a warp has: all rows, of its columns. A lane holds, of each 16x8 tile, two neighbouring
// columns of rows lane/4 and lane/4 + 8.
typedef float State[ROWS / 16][COLUMNS / 8][4];

// Calls `body(row, tile of columns, low, high)` for the pairs of a lane.
template <typename BODY> DEVICE void each_pair(State &s, BODY body) {
#pragma unroll
  for (int m = 0; m < ROWS / 16; m++)
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++)
#pragma unroll
      for (int half = 0; half < 2; half++)
        body(m * 16 + half * 8 + threadIdx.x % 32 / 4, j, s[m][j][2 * half], s[m][j][2 * half + 1]);
}

// continues   [requests]: 0 where the state before the run is zeros, whatever is in its slot
// prepared    as gated_delta_prepare has left it
// The state is that after the run. A request without tokens keeps what it has. Tokens of a request whose slot there is
// not, and tokens past the last request's, get zeros.
//
// Grid (requests + 1, VALUE_HEADS, VALUE_DIM / ROWS).
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
gated_delta_scan(const bf16 *query, i64 query_stride, const bf16 *key, i64 key_stride, const Prepared *prepared,
                 float *state, i32 slot_count, const i32 *slots, const i32 *continues, const i32 *starts,
                 i32 requests, i32 tokens, bf16 *output, i64 output_stride) {
  extern __shared__ __align__(16) unsigned char memory[];
  ScanShared &shared = *(ScanShared *)memory;

  const i32 request = blockIdx.x;
  const i32 head = blockIdx.y;
  const i32 key_head = head / HEADS_PER_KEY;
  const i32 first_row = blockIdx.z * ROWS;
  const i32 warp = threadIdx.x / 32;
  const i32 lane = threadIdx.x % 32;
  output += head * VALUE_DIM + first_row;
  // Tokens past the last request's are those of blocks with a number more.
  const bool is_request = request < requests;
  const i32 first = start_of(starts, request, tokens);
  const i32 end = is_request ? start_of(starts, request + 1, tokens) : tokens;
  const i32 slot = is_request ? slots[request] : -1;
  if ((u32)slot >= (u32)slot_count) {
    for (i32 token = first + threadIdx.x / CHUNKS_OF_ROW; token < end; token += SCAN_THREADS / CHUNKS_OF_ROW)
      *(uint4 *)(output + token * output_stride + threadIdx.x % CHUNKS_OF_ROW * 8) = make_uint4(0, 0, 0, 0);
    return;
  }
  if (first >= end) return;
  const i32 chunks = (end - first + CHUNK - 1) / CHUNK;
  query += key_head * KEY_DIM;
  key += key_head * KEY_DIM;

  // Starts the copies of what is needed of a chunk. Past the last chunk the groups are empty.
  const auto copy_w_and_u = [&](i32 number) {
    if (number < chunks) {
      const Prepared &from = prepared[find_chunk(first, end, request, number).place * VALUE_HEADS + head];
      for (i32 i = threadIdx.x; i < CHUNK * CHUNKS_OF_KEY; i += SCAN_THREADS) {
        const i32 row = i / CHUNKS_OF_KEY, piece = i % CHUNKS_OF_KEY;
        copy16_async(&shared.w[chunk_place<CHUNKS_OF_KEY>(row, piece)], &from.w[row][piece * 8], true);
      }
      for (i32 i = threadIdx.x; i < CHUNK * CHUNKS_OF_ROW; i += SCAN_THREADS) {
        const i32 row = i / CHUNKS_OF_ROW, piece = i % CHUNKS_OF_ROW;
        copy16_async(&shared.u[chunk_place<CHUNKS_OF_ROW>(row, piece)], &from.u[row][first_row + piece * 8], true);
      }
    }
    close_copy_group();
  };
  // Tokens past the end of the run are zeros.
  const auto copy_rows = [&](bf16 *to, const bf16 *from, i64 stride, i32 number) {
    const Chunk chunk = find_chunk(first, end, request, number);
    for (i32 i = threadIdx.x; i < CHUNK * CHUNKS_OF_KEY; i += SCAN_THREADS) {
      const i32 row = i / CHUNKS_OF_KEY, piece = i % CHUNKS_OF_KEY;
      const bool exists = row < chunk.tokens;
      copy16_async(&to[chunk_place<CHUNKS_OF_KEY>(row, piece)],
                   from + (chunk.start + row) * stride + piece * 8, exists);
    }
  };
  const auto copy_queries = [&](i32 number) {
    if (number < chunks) {
      const Prepared &from = prepared[find_chunk(first, end, request, number).place * VALUE_HEADS + head];
      copy_rows(shared.query, query, query_stride, number);
      for (i32 i = threadIdx.x; i < CHUNK * (CHUNK / 8); i += SCAN_THREADS) {
        const i32 row = i / (CHUNK / 8), piece = i % (CHUNK / 8);
        copy16_async(&shared.weight[chunk_place<CHUNK / 8>(row, piece)], &from.weight[row][piece * 8], true);
      }
    }
    close_copy_group();
  };
  const auto copy_keys = [&](i32 number) {
    if (number < chunks) copy_rows(shared.key, key, key_stride, number);
    close_copy_group();
  };
  copy_w_and_u(0);
  copy_queries(0);
  copy_keys(0);

  State s;
  float *of_slot = state + (((i64)slot * VALUE_HEADS + head) * VALUE_DIM + first_row) * KEY_DIM + warp * COLUMNS;
  const bool begins = continues[request] == 0;
  // The state as bf16, for the products with it.
  const auto share_state = [&] {
    each_pair(s, [&](i32 row, i32 j, float low, float high) {
      const i32 place = chunk_place<CHUNKS_OF_KEY>(row, warp * (COLUMNS / 8) + j) + lane % 4 * 2;
      *(u32 *)&shared.state[place] = to_bf16_pair(low, high);
    });
  };
  each_pair(s, [&](i32 row, i32 j, float &low, float &high) {
    const float2 two =
        begins ? make_float2(0.0f, 0.0f) : *(const float2 *)(of_slot + row * KEY_DIM + j * 8 + lane % 4 * 2);
    low = two.x;
    high = two.y;
  });
  share_state();
  wait_for_copies<2>();
  __syncthreads();

#pragma unroll 1
  for (i32 number = 0; number < chunks; number++) {
    const Chunk chunk = find_chunk(first, end, request, number);
    const Prepared &of_chunk = prepared[chunk.place * VALUE_HEADS + head];
    const i32 warp_token = warp * 16;

    // What the tokens have learnt: sixteen tokens to a warp.
    float learnt[ROWS / 8][4] = {};
#pragma unroll
    for (int k = 0; k < KEY_DIM / 16; k++) {
      u32 rows[4];
      load_matrix_x4(rows, &shared.w[chunk_place<CHUNKS_OF_KEY>(warp_token + lane % 16, k * 2 + lane / 16)]);
#pragma unroll
      for (int j = 0; j < ROWS / 16; j++) {
        u32 with[4];
        const i32 row = j * 16 + lane % 8 + lane / 16 * 8;
        load_matrix_x4(with, &shared.state[chunk_place<CHUNKS_OF_KEY>(row, k * 2 + lane / 8 % 2)]);
        mma_16x8x16(learnt[2 * j], rows, with[0], with[1]);
        mma_16x8x16(learnt[2 * j + 1], rows, with[2], with[3]);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const i32 token = warp_token + half * 8 + lane / 4;
      const float factor = of_chunk.key_factor[token];
#pragma unroll
      for (int j = 0; j < ROWS / 8; j++) {
        const i32 place = chunk_place<CHUNKS_OF_ROW>(token, j) + lane % 4 * 2;
        const u32 u = *(const u32 *)&shared.u[place];
        const float low = low_half(u) - learnt[j][2 * half], high = high_half(u) - learnt[j][2 * half + 1];
        *(u32 *)&shared.learnt[place] = to_bf16_pair(low, high);
        *(u32 *)&shared.left[place] = to_bf16_pair(low * factor, high * factor);
      }
    }
    // This chunk's queries are there, and what all tokens have learnt; all have finished reading w and u.
    wait_for_copies<1>();
    __syncthreads();
    copy_w_and_u(number + 1);

    // The results of the same tokens: first from the state, then from the tokens up to each.
    float result[ROWS / 8][4] = {};
#pragma unroll
    for (int k = 0; k < KEY_DIM / 16; k++) {
      u32 rows[4];
      load_matrix_x4(rows, &shared.query[chunk_place<CHUNKS_OF_KEY>(warp_token + lane % 16, k * 2 + lane / 16)]);
#pragma unroll
      for (int j = 0; j < ROWS / 16; j++) {
        u32 with[4];
        const i32 row = j * 16 + lane % 8 + lane / 16 * 8;
        load_matrix_x4(with, &shared.state[chunk_place<CHUNKS_OF_KEY>(row, k * 2 + lane / 8 % 2)]);
        mma_16x8x16(result[2 * j], rows, with[0], with[1]);
        mma_16x8x16(result[2 * j + 1], rows, with[2], with[3]);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const float factor = of_chunk.query_factor[warp_token + half * 8 + lane / 4];
#pragma unroll
      for (int j = 0; j < ROWS / 8; j++) {
        result[j][2 * half] *= factor;
        result[j][2 * half + 1] *= factor;
      }
    }
#pragma unroll
    for (int k = 0; k < CHUNK / 16; k++) {
      // Later tokens have no weight.
      if (k > warp) break;
      u32 rows[4];
      load_matrix_x4(rows, &shared.weight[chunk_place<CHUNK / 8>(warp_token + lane % 16, k * 2 + lane / 16)]);
#pragma unroll
      for (int j = 0; j < ROWS / 16; j++) {
        u32 with[4];
        load_matrix_x4_transposed(with, &shared.learnt[chunk_place<CHUNKS_OF_ROW>(k * 16 + lane % 16, j * 2 + lane / 16)]);
        mma_16x8x16(result[2 * j], rows, with[0], with[1]);
        mma_16x8x16(result[2 * j + 1], rows, with[2], with[3]);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const i32 token = warp_token + half * 8 + lane / 4;
      if (token >= chunk.tokens) continue;
#pragma unroll
      for (int j = 0; j < ROWS / 8; j++)
        *(u32 *)(output + (chunk.start + token) * output_stride + j * 8 + lane % 4 * 2) =
            to_bf16_pair(result[j][2 * half], result[j][2 * half + 1]);
    }
    // This chunk's keys are there; all have finished reading queries, weights, the state and what was learnt.
    wait_for_copies<1>();
    __syncthreads();
    copy_queries(number + 1);

    // The state after the chunk.
    const float decay = of_chunk.decay;
    each_pair(s, [&](i32, i32, float &low, float &high) {
      low *= decay;
      high *= decay;
    });
#pragma unroll
    for (int k = 0; k < CHUNK / 16; k++) {
      u32 rows[ROWS / 16][4];
#pragma unroll
      for (int m = 0; m < ROWS / 16; m++) {
        const i32 token = k * 16 + lane % 8 + lane / 16 * 8;
        load_matrix_x4_transposed(rows[m], &shared.left[chunk_place<CHUNKS_OF_ROW>(token, m * 2 + lane / 8 % 2)]);
      }
#pragma unroll
      for (int j = 0; j < COLUMNS / 16; j++) {
        u32 with[4];
        const i32 piece = warp * (COLUMNS / 8) + j * 2 + lane / 16;
        load_matrix_x4_transposed(with, &shared.key[chunk_place<CHUNKS_OF_KEY>(k * 16 + lane % 16, piece)]);
#pragma unroll
        for (int m = 0; m < ROWS / 16; m++) {
          mma_16x8x16(s[m][2 * j], rows[m], with[0], with[1]);
          mma_16x8x16(s[m][2 * j + 1], rows[m], with[2], with[3]);
        }
      }
    }
    share_state();
    // The next chunk's w and u are there, and the state before it; all have finished reading keys and what is left.
    wait_for_copies<1>();
    __syncthreads();
    copy_keys(number + 1);
  }

  each_pair(s, [&](i32 row, i32 j, float low, float high) {
    *(float2 *)(of_slot + row * KEY_DIM + j * 8 + lane % 4 * 2) = make_float2(low, high);
  });
}
