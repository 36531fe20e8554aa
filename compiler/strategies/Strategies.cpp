// The table of strategies. A strategy only names what it uses of the compiler: a kernel family (kernels/), a pass, or
// an option of one (passes/).
#include "strategies/Strategy.h"
#include "strategies/Topics.h"

namespace kiln {

using Arguments = StrategyArguments;

AttributeMap settings(const Arguments &arguments) {
  AttributeMap map;
  for (const auto &[name, value] : arguments)
    map.insert({name, Attribute(value)});
  return map;
}

void configure(PipelineOptions &options, StringRef family, AttributeMap tile) {
  if (!tile.empty())
    options.tiles.insert_or_assign(family.str(), std::move(tile));
}

namespace {

/// Selects kernels of these families for ops of this kind, with the arguments as settings.
void prefer(PipelineOptions &options, StringRef kind, StringRef family, const Arguments &arguments = {}) {
  options.kernels.insert_or_assign(kind.str(), Attribute::ident(family));
  configure(options, family, settings(arguments));
}

/// Selects a separate layernorm kernel with these settings, the arguments, and accesses of one element.
void layerNorm(PipelineOptions &options, StringRef family, const Arguments &arguments, AttributeMap tile) {
  options.without.insert({&foldNormParametersPass, &fuseNormPass});
  prefer(options, "layernorm", family);
  tile.merge(settings(arguments));
  tile.insert({"vec", 1});
  configure(options, family, std::move(tile));
}

//===----------------------------------------------------------------------===//
// The topics
//===----------------------------------------------------------------------===//

std::vector<Strategy> matmulStrategies() {
  return {
      {"matmul", "auto", "products of prompts by Kiln's kernels or cuBLASLt, whichever should be faster",
       [](const Arguments &, PipelineOptions &options) { options.matmul = "auto"; }},
      {"matmul",
       "naive",
       "a thread an output, operands from global memory",
       [](const Arguments &arguments, PipelineOptions &options) { prefer(options, "matmul", "gemm_naive", arguments); },
       {{"threads", "of a block, a warp for 32 columns of a row", 32, 1024}}},
      {"matmul",
       "tiled",
       "tiles in shared memory, a block of outputs in each thread's registers, fp32 arithmetic",
       [](const Arguments &arguments, PipelineOptions &options) { prefer(options, "matmul", "gemm_simt", arguments); },
       {{"tile_rows", "rows of a block's tile", 32, 256},
        {"tile_cols", "columns of a block's tile", 32, 256},
        {"tile_depth", "depth of a step", 8, 32},
        {"thread_rows", "rows of a thread", 4, 16},
        {"thread_cols", "columns of a thread", 4, 16}}},
      {"matmul",
       "tensor",
       "tensor cores by mma.sync, operands staged by asynchronous copies",
       [](const Arguments &, PipelineOptions &options) { prefer(options, "matmul", "gemm_mma"); },
       {},
       {"precision=f32"}},
      {"matmul",
       "wgmma",
       "tensor cores by wgmma, operands copied by TMA, a warp that copies and warpgroups that multiply; sm_90a",
       [](const Arguments &arguments, PipelineOptions &options) { prefer(options, "matmul", "gemm_wgmma", arguments); },
       {{"tile_m", "rows of a tile, 64 or more a warpgroup", 64, 256},
        {"tile_n", "columns of a tile, a multiple of 32", 32, 256},
        {"stages", "steps of the depth there or on their way", 2, 16},
        {"consumers", "warpgroups that share a tile", 1, 3},
        {"teams", "tiles of a block at a time", 1, 3},
        {"cluster_m", "blocks of a cluster that copy the same columns for each other", 1, 8},
        {"cluster_n", "blocks of a cluster that copy the same rows for each other", 1, 8},
        {"parts", "blocks of a cluster that share the depth of a tile", 1, 8},
        {"ranges", "ranges of the depth that a block adds one after the other", 1, 16},
        {"shared", "bytes of shared memory that a block asks for, at least", 1, 232448},
        {"blocks", "blocks of a launch at most, without parts", 1, 1024}},
       {"precision=f32", "precision=tf32"}},
      {"matmul",
       "wmma",
       "tensor cores, a warp for 16 x 32 outputs, operands straight from global memory, factors rounded to tf32",
       [](const Arguments &arguments, PipelineOptions &options) {
         prefer(options, "matmul", "gemm_fragments", arguments);
       },
       {{"warps", "of a block", 1, 32, 1}},
       {"precision=f32"}},
      {"matmul",
       "split_k",
       "tensor cores, with parts of the depth in blocks of their own, up to 1024 rows",
       [](const Arguments &arguments, PipelineOptions &options) {
         prefer(options, "matmul", "gemm_mma_split_k", arguments);
       },
       {{"splits", "parts of the depth", 2, 16}},
       {"precision=f32"}},
      {"matmul", "cublaslt", "products of prompts by cuBLASLt, with bias, gelu and residual",
       [](const Arguments &, PipelineOptions &options) { options.matmul = "cublaslt"; }},
  };
}

void triangularAttention(const Arguments &arguments, PipelineOptions &options) {
  options.without.insert(&fuseAttentionPass);
  options.options[&fuseMaskPass].insert_or_assign("masks", Attribute::ident("prompts"));
  int64_t rung = arguments.find("rung")->second;
  prefer(options, "qk", rung == 1 ? "scores_naive" : rung == 4 ? "scores_simt" : "scores_registers");
  if (rung == 2 || rung == 3)
    configure(options, "scores_registers", {{"vec", rung == 2 ? 1 : 4}});
}

std::vector<Strategy> attentionStrategies() {
  return {
      {"attention",
       "naive",
       "unfused, and a thread an output in QK^T and PV",
       [](const Arguments &arguments, PipelineOptions &options) {
         options.without.insert(&fuseAttentionPass);
         for (StringRef kind : {"qk", "pv"})
           prefer(options, kind, "gemm_batched_naive", arguments);
       },
       {{"threads", "of a block, a warp for 32 columns of a row", 32, 1024}}},
      {"attention", "unfused",
       "a kernel each for QK^T, scale, mask, softmax, PV and the merge of heads; scores in memory",
       [](const Arguments &, PipelineOptions &options) { options.without.insert(&fuseAttentionPass); }},
      {"attention",
       "reduction",
       "unfused, and a block an output in QK^T and PV, a block a row in softmax, sums in two stages",
       [](const Arguments &arguments, PipelineOptions &options) {
         options.without.insert(&fuseAttentionPass);
         for (StringRef kind : {"qk", "pv"})
           prefer(options, kind, "gemm_batched_reduction", arguments);
         configure(options, "softmax", {{"row_threads", 256}, {"threads", 256}});
       },
       {{"threads", "of a block of QK^T and PV", 32, 1024, 64}},
       {"softmax=thread", "softmax=warp", "softmax=block"}},
      {"attention",
       "tensor",
       "unfused, and QK^T and PV in tensor cores, factors rounded to tf32, operands from global memory",
       [](const Arguments &arguments, PipelineOptions &options) {
         options.without.insert(&fuseAttentionPass);
         options.options[&assignPrecisionPass].insert_or_assign("attention_tf32", true);
         for (StringRef kind : {"qk", "pv"})
           prefer(options, kind, "gemm_batched_mma", arguments);
       },
       {{"warps", "of a block, each with 16 rows", 1, 32}},
       {"precision=f32"}},
      {"attention", "cublas", "unfused, and QK^T and PV by cuBLASLt, the products of all heads as one strided batch",
       [](const Arguments &, PipelineOptions &options) {
         options.without.insert(&fuseAttentionPass);
         options.options[&assignPrecisionPass].insert_or_assign("narrow_softmax", true);
         for (StringRef kind : {"qk", "pv"})
           prefer(options, kind, "cublaslt_batched");
       }},
      {"attention",
       "triangular",
       "unfused, but QK^T has scale and mask, and computes up to the diagonal: 1 a thread an output, 2 8 x 8 outputs a "
       "thread, 3 with 16-byte loads, 4 tiles in shared memory",
       triangularAttention,
       {{"rung", "which of them", 1, 4, 4}}},
      {"attention",
       "flash_naive",
       "one kernel, online softmax over tiles of 16 keys in shared memory, a thread a score, no shuffles",
       [](const Arguments &arguments, PipelineOptions &options) {
         prefer(options, "qk", "attention_naive", arguments);
       },
       {{"tile", "queries and keys of a tile, 16 or 32", 16, 32}}},
      {"attention",
       "windowed",
       "every query sees the last keys only, another model; one kernel, in which the others are not even read",
       [](const Arguments &arguments, PipelineOptions &options) {
         options.options[&windowAttentionPass].insert_or_assign("keys", arguments.find("w")->second);
       },
       {{"w", "keys that a query sees, its own among them", 1, 1 << 20, 128}}},
      {"attention",
       "flash_simt",
       "one kernel, online softmax over tiles of keys, fp32 arithmetic",
       [](const Arguments &arguments, PipelineOptions &options) { prefer(options, "qk", "attention_simt", arguments); },
       {{"tile_queries", "queries of a block", 16, 64},
        {"tile_keys", "keys of a step", 16, 64},
        {"threads", "of a block", 128, 256}}},
      {"attention",
       "flash_tensor",
       "one kernel, online softmax over tiles of keys, products in tensor cores",
       [](const Arguments &, PipelineOptions &options) { prefer(options, "qk", "attention_mma"); },
       {},
       {"precision=f32", "precision=tf32"}},
      {"attention",
       "flash_hopper",
       "as flash_tensor by wgmma, softmax of a tile of keys while the tensor cores multiply another; sm_90a",
       [](const Arguments &arguments, PipelineOptions &options) {
         prefer(options, "qk", "attention_wgmma", arguments);
       },
       {{"tile_queries", "queries of a block, 64 a warpgroup", 64, 256},
        {"tile_keys", "keys of a step, 64 or 128", 64, 128},
        {"stages", "tiles of keys there or on their way", 2, 4},
        {"ranges", "ranges of the keys that have sums of their own", 1, 4},
        {"ways", "2: two tiles of 64 queries share two warpgroups", 1, 2},
        {"roles", "1: all warps multiply; 2: one warp more copies", 1, 2}},
       {"precision=f32", "precision=tf32"}},
  };
}

std::vector<Strategy> layerNormStrategies() {
  std::vector<StringRef> excludes = {"fusion=on", "fusion=norm"};
  return {
      {"layernorm",
       "1",
       "a thread a row, three times through it in memory",
       [](const Arguments &arguments, PipelineOptions &options) {
         layerNorm(options, "layernorm", arguments, {{"row_threads", 1}});
       },
       {{"threads", "of a block", 32, 1024}},
       excludes},
      {"layernorm",
       "2",
       "mean, reciprocal deviation and normalisation as three kernels, the first two a block a row",
       [](const Arguments &arguments, PipelineOptions &options) {
         options.without.insert({&foldNormParametersPass, &fuseNormPass});
         options.options[&expandLayernormPass].insert_or_assign("layernorms", Attribute::ident("all"));
         configure(options, "row_reduction", settings(arguments));
       },
       {{"threads", "of a block that reduces, a power of two", 32, 1024}},
       excludes},
      {"layernorm",
       "3",
       "a warp a row, which it holds in registers between its passes; streaming hints for the caches",
       [](const Arguments &arguments, PipelineOptions &options) {
         layerNorm(options, "layernorm_streaming", arguments, {{"row_threads", 32}, {"one_pass", false}});
       },
       {{"threads", "of a block", 32, 1024}},
       excludes},
      {"layernorm",
       "4",
       "as 3, with the variance as E[x^2] - E[x]^2, in one pass",
       [](const Arguments &arguments, PipelineOptions &options) {
         layerNorm(options, "layernorm_streaming", arguments, {{"row_threads", 32}, {"one_pass", true}});
       },
       {{"threads", "of a block", 32, 1024}},
       excludes},
      {"layernorm",
       "5",
       "a block a row, reduced in two stages: within warps, then between them",
       [](const Arguments &arguments, PipelineOptions &options) {
         layerNorm(options, "layernorm", arguments, {{"row_threads", arguments.find("threads")->second}});
       },
       {{"threads", "of a block", 32, 1024, 256}},
       excludes},
      {"layernorm",
       "best",
       "a kernel of its own with the residual addition before it, rows in registers, 16-byte accesses",
       [](const Arguments &, PipelineOptions &options) {
         options.without.insert(&foldNormParametersPass);
         options.options[&fuseNormPass].insert_or_assign("into", Attribute::ident("producer"));
       },
       {},
       {"fusion=off", "fusion=epilogue"}},
  };
}

std::vector<Strategy> softmaxStrategies() {
  std::vector<StringRef> excludes = {"attention=flash_naive", "attention=flash_simt", "attention=flash_tensor",
                                     "attention=flash_hopper"};
  std::vector<StrategyParameter> threads = {{"threads", "of a block", 32, 1024, 256}};
  return {
      {"softmax", "thread", "a thread a row of scores, where attention is not fused",
       [](const Arguments &arguments, PipelineOptions &options) {
         AttributeMap tile = settings(arguments);
         tile.insert({"row_threads", 1});
         configure(options, "softmax", std::move(tile));
       },
       threads, excludes},
      {"softmax", "warp", "a warp a row of scores, where attention is not fused",
       [](const Arguments &arguments, PipelineOptions &options) {
         AttributeMap tile = settings(arguments);
         tile.insert({"row_threads", 32});
         configure(options, "softmax", std::move(tile));
       },
       threads, excludes},
      {"softmax", "block", "a block a row of scores, reduced in two stages, where attention is not fused",
       [](const Arguments &arguments, PipelineOptions &options) {
         AttributeMap tile = settings(arguments);
         tile.insert({"row_threads", arguments.find("threads")->second});
         configure(options, "softmax", std::move(tile));
       },
       threads, excludes},
  };
}

std::vector<Strategy> elementwiseStrategies() {
  std::vector<StrategyParameter> parameters = {{"threads", "of a block", 32, 1024},
                                               {"unroll", "vectors of a thread", 1, 32},
                                               {"vec", "elements of an access", 1, 4}};
  // These settings apply to one op, under its name in choose-tiles.
  std::vector<StringRef> behindProducts = {"fusion=on", "fusion=epilogue"};
  std::vector<StringRef> behindAttention = {"attention=flash_naive", "attention=flash_simt", "attention=flash_tensor",
                                            "attention=flash_hopper", "attention=windowed"};
  return {
      {"elementwise", "map",
       "launch configuration of kernels that compute a function of every element, and of the embedding",
       [](const Arguments &arguments, PipelineOptions &options) { configure(options, "map", settings(arguments)); },
       parameters},
      {"encoder", "map", "launch configuration of the embedding alone",
       [](const Arguments &arguments, PipelineOptions &options) { configure(options, "embed", settings(arguments)); },
       parameters},
      {"bias", "map", "launch configuration of the addition of biases, where it is a kernel of its own",
       [](const Arguments &arguments, PipelineOptions &options) { configure(options, "bias", settings(arguments)); },
       parameters, behindProducts},
      {"gelu", "map", "launch configuration of gelu, where it is a kernel of its own",
       [](const Arguments &arguments, PipelineOptions &options) { configure(options, "gelu", settings(arguments)); },
       parameters, behindProducts},
      {"residual",
       "map",
       "launch configuration of the residual addition, where it is a kernel of its own",
       [](const Arguments &arguments, PipelineOptions &options) {
         configure(options, "residual", settings(arguments));
       },
       parameters,
       {"fusion=on"}},
      {"permute", "map", "launch configuration of the move to heads, where it is a kernel of its own",
       [](const Arguments &arguments, PipelineOptions &options) {
         configure(options, "split_heads", settings(arguments));
       },
       parameters, behindProducts},
      {"unpermute", "map", "launch configuration of the move from heads, where attention is not fused",
       [](const Arguments &arguments, PipelineOptions &options) {
         configure(options, "merge_heads", settings(arguments));
       },
       parameters, behindAttention},
  };
}

} // namespace

ArrayRef<Strategy> allStrategies() {
  static const std::vector<Strategy> strategies = [] {
    std::vector<Strategy> all;
    for (auto topic : {matmulStrategies, attentionStrategies, layerNormStrategies, softmaxStrategies,
                       elementwiseStrategies, wholeStrategies})
      llvm::append_range(all, topic());
    return all;
  }();
  return strategies;
}

} // namespace kiln
