#pragma once
// What the attention kernels share: where keys lie, which of them a token sees, and how a score becomes a weight.
//
// Set by the host, which also checks them:
//   HEAD_DIM       elements per head
//   QUERY_HEADS    query heads of the model
//   KV_HEADS       key/value heads; divides QUERY_HEADS
//   PAGE_SHIFT     log2 of the tokens in a page
//   WINDOW         tokens that a token sees, itself among them; 0 for all
//   SOFTCAP        1 if scores are capped
//   SINKS          1 if every query head has a sink, a score without a value
#include "merging.cuh"

enum : int {
  // Query heads that share a key head.
  GROUP = QUERY_HEADS / KV_HEADS,
  // 16-byte pieces of a head: what a thread copies at once.
  CHUNKS = HEAD_DIM / 8,
};

// What a product of query and key is multiplied by before `finished_score`.
DEVICE float score_factor(float scale, float softcap) { return SOFTCAP ? scale / softcap : scale * LOG2_E; }

// The score of such a product, in units of log2.
DEVICE float finished_score(float product, float softcap) {
  return SOFTCAP ? softcap * LOG2_E * tanh_accurate(product) : product;
}

// Where a token's key and value start, relative to the pools, if they are in that page.
DEVICE i64 offset_in_page(i32 page, i32 token, i64 page_stride, i64 token_stride) {
  const i32 row = token & ((1 << PAGE_SHIFT) - 1);
  return (i64)page * page_stride + (i64)row * token_stride;
}

// The same, the page being looked up.
DEVICE i64 token_offset(const i32 *pages, i32 token, i64 page_stride, i64 token_stride) {
  return offset_in_page(pages[token >> PAGE_SHIFT], token, page_stride, token_stride);
}

// Where a chunk of a row lies in a tile of heads in shared memory, in elements.
DEVICE i32 place(i32 row, i32 chunk) { return chunk_place<CHUNKS>(row, chunk); }
