//===- DecodeRegion.h - all layers of a decode step, as one region has them --------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// One layer, of layernorms without parameters, and products whose weights are [cols, depth]:
///   q, k, v = split_heads(matmul(layernorm(x), qkv_w) + qkv_b); k and v go to the cache
///   mid     = matmul(attention(q, cache), proj_w) + proj_b + x
///   out     = matmul(activation(matmul(layernorm(mid), fc_w) + fc_b), fcproj_w) + fcproj_b + mid
/// Of a module of several ranks, the products of proj_w and fcproj_w are parts, which all_reduce adds up.
struct DecodeLayer {
  const Op *attentionNorm = nullptr, *qkv = nullptr, *qkvBias = nullptr;
  const Op *split[3] = {}, *write[2] = {}; ///< of q, k, v; of keys and values
  const Op *qk = nullptr, *mask = nullptr, *softmax = nullptr, *pv = nullptr, *merge = nullptr;
  SmallVector<const Op *, 2> scales;                                                 ///< between product and mask
  const Op *proj = nullptr, *projSum = nullptr, *projBias = nullptr, *mid = nullptr; ///< projSum: of ranks, if any
  const Op *mlpNorm = nullptr, *fc = nullptr, *fcBias = nullptr, *activation = nullptr;
  const Op *fcproj = nullptr, *fcprojSum = nullptr, *fcprojBias = nullptr, *out = nullptr;

  const Value &x() const { return *attentionNorm->operand(0); }
  const Value &cache(unsigned i) const { return *write[i]->operand(0); }
};

/// The embedding, all layers, which differ in their weights and caches only, and the logits of their result:
///   x      = embed(tokens, wte, wpe, positions)
///   logits = slice(matmul(layernorm(x, ln_f_w, ln_f_b), wte)), with or without slice.
/// Of several ranks, all_gather takes the place of slice.
struct DecodeRegion {
  const Op *embed = nullptr;
  std::vector<DecodeLayer> layers;
  const Op *lastNorm = nullptr, *product = nullptr, *slice = nullptr, *gather = nullptr;
  std::vector<const Op *> firstOps; ///< those of the embedding and of the first layer, in order
  std::vector<const Op *> lastOps;  ///< those behind the layers, in order

  const Value &x() const { return layers.front().x(); }
  const Value &tokens() const { return *embed->operand(0); }
  const Value &positions() const { return *embed->operand(3); }
  const Value &logits() const { return *(gather ? gather : slice ? slice : product)->result(); }
  const Value &lastWeight() const { return *product->operand(1); }

  int64_t dim() const { return *x().type.lastDim().asConstant(); }
  // Of each rank.
  int64_t heads() const { return layers.front().split[0]->intAttribute("heads"); }
  int64_t headSize() const { return *layers.front().cache(0).type.shape[3].asConstant(); }
  int64_t hidden() const { return *layers.front().fc->result()->type.lastDim().asConstant(); }
  int64_t context() const { return *layers.front().cache(0).type.shape[2].asConstant(); }
  int64_t ranks() const { return embed->parent()->function()->module().ranks(); }
  DType dtype() const { return layers.front().qkv->operand(1)->type.dtype; }

  /// Reads the region of a fused op. Error: the first op that is not as above, and what was expected.
  static Expected<DecodeRegion> read(const Op &fused);
  /// The region of a fused op, or nothing. Fast for ops that are something else.
  static std::optional<DecodeRegion> of(const Op &fused);
};

} // namespace kiln
