// What is done to logits before a token is chosen: penalties for tokens that were there before, and the tokens that a
// grammar does not allow.
#include "common.cuh"

enum : int { THREADS = 256 };

// logits       rows of `vocabulary` logits, each `stride` after the one before, changed in place
// starts       [rows + 1]: where in `tokens` and `counts` each row's begin, and the end of the last one's
// tokens       the different tokens of each row's history; one outside the vocabulary is left out
// counts       how often each of them is in the output; 0 for one that is in the prompt only
// entries      how many tokens and counts there are
// repetition, presence, frequency   [rows]
//
// Grid (rows).
extern "C" __global__ void __launch_bounds__(THREADS)
penalise(float *logits, i64 stride, i32 vocabulary, const i32 *starts, const i32 *tokens, const i32 *counts,
         i32 entries, const float *repetition, const float *presence, const float *frequency) {
  const i64 row = blockIdx.x;
  logits += row * stride;
  const i32 end = min(starts[row + 1], entries);
  for (i32 i = max(starts[row], 0) + threadIdx.x; i < end; i += THREADS) {
    const i32 token = tokens[i];
    if ((u32)token >= (u32)vocabulary) continue;
    const float logit = logits[token];
    const float factor = repetition[row];
    const float less = logit > 0.0f ? logit / factor : logit * factor;
    const i32 count = counts[i];
    logits[token] = count > 0 ? less - (frequency[row] * count + presence[row]) : less;
  }
}

// logits      rows of `vocabulary` logits, each `stride` after the one before, changed in place
// masks       [mask_count, words], a bit for each token, the lowest first; tokens without a bit are not allowed
// mask_of_row the mask of each row; one that there is not leaves the row as it is
//
// Grid (rows, tokens / THREADS).
extern "C" __global__ void __launch_bounds__(THREADS)
forbid(float *logits, i64 stride, i32 vocabulary, const u32 *masks, i32 words, i32 mask_count,
       const i32 *mask_of_row) {
  const i64 row = blockIdx.x;
  const i32 mask = mask_of_row[row];
  const i32 token = blockIdx.y * THREADS + threadIdx.x;
  if ((u32)mask >= (u32)mask_count || token >= vocabulary) return;
  const u32 bits = token / 32 < words ? masks[(i64)mask * words + token / 32] : 0;
  if ((bits >> token % 32 & 1) == 0) logits[row * stride + token] = -infinity();
}
