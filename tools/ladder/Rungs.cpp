// The table of the ladder. To add a rung, add a line here; a rung that needs something new of the compiler also needs a
// strategy (compiler/strategies).
#include "tools/ladder/Rungs.h"

#include "tools/ladder/StepGroups.h"

#include "support/Diagnostic.h"

namespace kiln {

namespace {

std::vector<Rung> productRungs() {
  return {
      {"naive", "matmul=naive,fusion=off"},
      {"shared and register tiles", "matmul=tiled,fusion=off"},
      {"WMMA, tf32, a warp a block", "matmul=wmma{warps=1},precision=tf32,fusion=off"},
      {"WMMA, fp16, a warp a block", "matmul=wmma{warps=1},precision=f16,fusion=off"},
      {"WMMA, fp16, eight warps a block", "matmul=wmma{warps=8},precision=f16,fusion=off"},
      {"mma.sync and cp.async, tf32", "matmul=tensor,precision=tf32,fusion=off"},
      {"mma.sync and cp.async, bf16", "matmul=tensor,precision=bf16,fusion=off"},
      {"wgmma and TMA, bf16", "matmul=wgmma,precision=bf16,fusion=off"},
      {"cuBLASLt, bf16", "matmul=cublaslt,precision=bf16,fusion=off"},
      {"fused epilogues, bf16", "matmul=tensor,precision=bf16,fusion=epilogue"},
      {"fused epilogues, wgmma, bf16", "matmul=wgmma,precision=bf16,fusion=epilogue"},
      {"the compiler's choice, bf16", "matmul=auto,precision=bf16"},
  };
}

LadderPart products(StringRef name, int64_t batch, int64_t length) {
  return {.name = name,
          .title = "Matrix products",
          .about = "The products of all layers with their biases, activations and residuals.",
          .batch = batch,
          .length = length,
          .rungs = productRungs(),
          .takes = isProductOrElementwise,
          .wantsPerplexity = length <= 64};
}

LadderPart splitK(StringRef name, StringRef title, StringRef about, int64_t length, bool (*takes)(const Op &)) {
  return {.name = name,
          .title = title,
          .about = about,
          .batch = 1,
          .length = length,
          .rungs = {{"whole", "matmul=tensor"},
                    {"2 parts", "matmul=split_k{splits=2}"},
                    {"3 parts", "matmul=split_k{splits=3}"},
                    {"4 parts", "matmul=split_k{splits=4}"}},
          .takes = takes,
          .base = "precision=f16,fusion=off"};
}

std::vector<LadderPart> matmulParts() {
  return {
      products("matmul", 4, 64),
      products("matmul-large", 8, 1024),
      splitK("split-k", "Split-K where it gains: few rows, much depth",
             "The product that leaves the MLP at 64 rows: [64, 3072] times [3072, 768]. Whole, it has few blocks.", 64,
             isSecondInMlp),
      splitK("split-k-shallow", "Split-K where it loses: many rows, little depth",
             "The product that enters the MLP at 1024 rows: [1024, 768] times [768, 3072].", 1024, isFirstInMlp),
  };
}

std::vector<LadderPart> normParts() {
  std::vector<Rung> rungs = {
      {"1: a thread a row", "layernorm=1"},
      {"2: three kernels, block reductions", "layernorm=2"},
      {"3: a warp a row, cache hints", "layernorm=3"},
      {"4: as 3, one pass for both sums", "layernorm=4"},
      {"5: a block a row, two-stage reduction", "layernorm=5"},
      {"best: with the residual addition", "layernorm=best"},
  };
  LadderPart large = {.name = "layernorm",
                      .title = "Layer normalisation",
                      .about = "All layernorms of a pass in fp32, rows of n_embd elements.",
                      .batch = 8,
                      .length = 1024,
                      .rungs = rungs,
                      .takes = isNorm};
  LadderPart small = large;
  small.name = "layernorm-small";
  small.batch = 4;
  small.length = 64;
  LadderPart constant = large;
  constant.name = "constant";
  constant.title = "Weight and bias in constant memory";
  constant.about = "The constant cache answers a warp at once where all its threads read one address, and one address "
                   "after the other where they differ.";
  constant.rungs = {{"a thread a row", "layernorm=1"},
                    {"a thread a row, constants", "layernorm=1,parameters=constant"},
                    {"a block a row", "layernorm=5"},
                    {"a block a row, constants", "layernorm=5,parameters=constant"}};
  LadderPart blocks = large;
  blocks.name = "layernorm-blocks";
  blocks.title = "Block size of a layernorm with a block a row";
  blocks.about = "A sweep, not a ladder: no size is the next one's better.";
  blocks.rungs = {{"32 threads", "layernorm=5{threads=32}"},   {"64 threads", "layernorm=5{threads=64}"},
                  {"128 threads", "layernorm=5{threads=128}"}, {"256 threads", "layernorm=5{threads=256}"},
                  {"512 threads", "layernorm=5{threads=512}"}, {"1024 threads", "layernorm=5{threads=1024}"}};
  return {large, small, constant, blocks};
}

std::vector<Rung> attentionRungs() {
  return {
      {"naive, five kernels", "attention=naive,softmax=thread"},
      {"block reductions", "attention=reduction"},
      {"WMMA, tf32", "attention=tensor,precision=tf32"},
      {"cuBLASLt, strided batches", "attention=cublas"},
      {"triangular", "attention=triangular{rung=4}"},
      {"windowed, 32 keys", "attention=windowed{w=32}", true},
      {"flash, naive tiles", "attention=flash_naive"},
      {"flash, register tiles", "attention=flash_simt"},
      {"flash, tensor cores, bf16", "attention=flash_tensor,precision=bf16"},
      {"flash, Hopper's wgmma, bf16", "attention=flash_hopper,precision=bf16"},
  };
}

LadderPart longAttention(StringRef name, int64_t length) {
  return {.name = name,
          .title = "Attention of one layer",
          .about = "Scores in memory grow with the square of the length, and so does the "
                   "work of all but the window. Moves to and from heads are in the products beside it.",
          .batch = 4,
          .length = length,
          .rungs = {{"standard, scores in memory", "attention=unfused"},
                    {"flash, naive tiles", "attention=flash_naive"},
                    {"flash, register tiles", "attention=flash_simt"},
                    {"flash, tensor cores, bf16", "attention=flash_tensor,precision=bf16"},
                    {"flash, Hopper's wgmma, bf16", "attention=flash_hopper,precision=bf16"},
                    {"windowed, 128 keys, bf16", "attention=windowed{w=128},precision=bf16", true}},
          .takes = isAttention,
          .layers = 1,
          .positions = length};
}

std::vector<LadderPart> attentionParts() {
  return {
      {.name = "attention",
       .title = "Attention",
       .about = "All layers' attention between the products, moves to and from heads included.",
       .batch = 4,
       .length = 64,
       .rungs = attentionRungs(),
       .takes = isAttention,
       .base = "fusion=off",
       .positions = 64,
       .wantsPerplexity = true},
      {.name = "triangular",
       .title = "Causal Q K^T",
       .about = "One layer's scores in fp32, scaled and masked; the lower triangle only.",
       .batch = 8,
       .length = 1024,
       .rungs = {{"1: a thread an output", "attention=triangular{rung=1}"},
                 {"2: 8 x 8 outputs a thread", "attention=triangular{rung=2}"},
                 {"3: 16-byte loads", "attention=triangular{rung=3}"},
                 {"4: tiles in shared memory", "attention=triangular{rung=4}"},
                 {"cuBLASLt, the whole square, not scaled or masked", "attention=cublas"}},
       .takes = isScores,
       .layers = 1,
       .positions = 1024},
      longAttention("attention-1024", 1024),
      longAttention("attention-2048", 2048),
      longAttention("attention-4096", 4096),
      {.name = "softmax",
       .title = "Softmax of scores in memory",
       .about = "One layer's softmax in fp32.",
       .batch = 4,
       .length = 1024,
       .rungs = {{"a thread a row", "softmax=thread"},
                 {"a warp a row", "softmax=warp"},
                 {"a block a row, two stages", "softmax=block"}},
       .takes = isSoftmax,
       .base = "attention=unfused",
       .layers = 1,
       .positions = 1024},
  };
}

LadderPart elementwiseSweep(StringRef name, StringRef title, std::vector<Rung> rungs) {
  return {.name = name,
          .title = title,
          .about = "A sweep, not a ladder. Every kernel in fp32 that computes a function of each element, unfused: "
                   "embedding, biases, gelu, residuals, moves to and from heads.",
          .batch = 8,
          .length = 1024,
          .rungs = std::move(rungs),
          .takes = isElementwise,
          .base = "fusion=off"};
}

std::vector<LadderPart> elementwiseParts() {
  return {
      elementwiseSweep("blocks", "Block size of elementwise kernels",
                       {{"32 threads", "elementwise=map{threads=32}"},
                        {"64 threads", "elementwise=map{threads=64}"},
                        {"128 threads", "elementwise=map{threads=128}"},
                        {"256 threads", "elementwise=map{threads=256}"},
                        {"512 threads", "elementwise=map{threads=512}"},
                        {"1024 threads", "elementwise=map{threads=1024}"}}),
      elementwiseSweep("unroll", "Unrolling of elementwise kernels",
                       {{"an element an access", "elementwise=map{vec=1,unroll=1}"},
                        {"4 of them unrolled", "elementwise=map{vec=1,unroll=4}"},
                        {"16-byte accesses", "elementwise=map{vec=4,unroll=1}"},
                        {"2 unrolled", "elementwise=map{vec=4,unroll=2}"},
                        {"4 unrolled", "elementwise=map{vec=4,unroll=4}"},
                        {"8 unrolled", "elementwise=map{vec=4,unroll=8}"}}),
  };
}

LadderPart fusion(StringRef name, int64_t batch, int64_t length) {
  return {.name = name,
          .title = "Fusion",
          .about = "A whole pass over the prompt in bf16, as one CUDA graph.",
          .timed = Timed::Call,
          .batch = batch,
          .length = length,
          .rungs = {{"no fusion but attention's", "fusion=off"},
                    {"layernorm into its neighbours", "fusion=norm"},
                    {"epilogues of products", "fusion=epilogue"},
                    {"both", "fusion=on"}},
          .base = "precision=bf16"};
}

std::vector<LadderPart> wholeParts() {
  return {
      fusion("fusion", 4, 64),
      fusion("fusion-large", 8, 1024),
      {.name = "restrict",
       .title = "__restrict__",
       .about = "A whole pass over the prompt in fp32, each kernel after the one before it.",
       .timed = Timed::Call,
       .batch = 8,
       .length = 1024,
       .rungs = {{"plain pointers", "restrict=off"}, {"__restrict__ parameters", "restrict=on"}},
       .base = "launches=serial"},
      {.name = "launches",
       .title = "Early launches",
       .about =
           "A whole pass over the prompt in bf16: programmatic dependent launches let a kernel's start overlap the "
           "end of the one before it.",
       .timed = Timed::Call,
       .batch = 1,
       .length = 64,
       .rungs = {{"each after the one before it", "launches=serial"}, {"early", "launches=early"}},
       .base = "precision=bf16"},
      {.name = "precision",
       .title = "Precision",
       .about = "A whole pass over the prompt, as one CUDA graph.",
       .timed = Timed::Call,
       .batch = 8,
       .length = 1024,
       .rungs = {{"fp32", "precision=f32"},
                 {"tf32 products", "precision=tf32"},
                 {"fp16", "precision=f16"},
                 {"bf16", "precision=bf16"}},
       .wantsPerplexity = true},
      {.name = "generation",
       .title = "Generation of 50 tokens",
       .about = "Tokens after a prompt, the most probable each time; fewer than 50 where the context ends.",
       .timed = Timed::Generation,
       .batch = 1,
       .length = 8,
       .rungs = {{"no cache: the sequence again for each token", "kv_cache=off"},
                 {"KV cache", "graphs=off"},
                 {"CUDA graphs, tokens chosen on the device", "graphs=on"},
                 {"bf16", "precision=bf16,decode=graph"},
                 {"bf16, one kernel for all layers, several tokens a launch", "precision=bf16,decode=auto"}}},
      {.name = "copies",
       .title = "To the first token",
       .about = "From weights in host memory to the logits of a prompt: packing, copies and computation.",
       .timed = Timed::FirstToken,
       .batch = 1,
       .length = 64,
       .rungs = {{"all weights first", "copies=first"}, {"copies overlapped with computation", "copies=overlapped"}},
       .base = "precision=bf16"},
      {.name = "gpus",
       .title = "A batch on several GPUs",
       .about = "Prompts in host memory, dealt out to all GPUs, until their logits are in host memory.",
       .timed = Timed::Batch,
       .batch = 8,
       .length = 1024,
       .rungs = {{"one GPU", "precision=bf16"},
                 {"all GPUs, allocated and copied for each batch", "precision=bf16", false, BatchDevices::AllEachTime},
                 {"all GPUs, buffers kept", "precision=bf16", false, BatchDevices::AllKept}}},
  };
}

} // namespace

std::string LadderPart::strategyOf(const Rung &rung) const {
  return base.empty() ? rung.strategy.str() : (rung.strategy + "," + base).str();
}

std::string LadderPart::heading() const { return formatv("{0}, B={1} T={2}", title, batch, length); }

LadderPart fitted(LadderPart part, int64_t context) {
  part.length = std::min(part.length, part.positions.value_or(context));
  return part;
}

ArrayRef<LadderPart> allLadderParts() {
  static const std::vector<LadderPart> parts = [] {
    std::vector<LadderPart> all;
    for (auto some : {matmulParts, normParts, attentionParts, elementwiseParts, wholeParts})
      llvm::append_range(all, some());
    return all;
  }();
  return parts;
}

Expected<const LadderPart *> findLadderPart(StringRef name) {
  std::vector<StringRef> known;
  for (const LadderPart &part : allLadderParts()) {
    if (part.name == name)
      return &part;
    known.push_back(part.name);
  }
  return makeError("--parts: expected " + llvm::join(known, ", ") + ", got '" + name + "'");
}

void listLadder(raw_ostream &os) {
  for (const LadderPart &part : allLadderParts()) {
    os << part.name << ": " << part.heading() << '\n';
    for (const Rung &rung : part.rungs)
      os << "  " << llvm::left_justify(rung.name, 50) << "  " << part.strategyOf(rung) << '\n';
  }
}

} // namespace kiln
