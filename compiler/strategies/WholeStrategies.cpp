// The topics of strategies that are about a whole plan.
#include "strategies/Topics.h"

namespace kiln {

using Arguments = StrategyArguments;

std::vector<Strategy> wholeStrategies() {
  return {
      {"fusion", "on", "bias, activation, residual, layernorm and the move to heads inside the kernels beside them",
       [](const Arguments &, PipelineOptions &) {}},
      {"fusion", "off", "bias, activation, residual, layernorm and the move to heads as kernels of their own",
       [](const Arguments &, PipelineOptions &options) {
         options.without.insert({&fuseEpiloguePass, &fuseScorePass, &fuseNormPass});
       }},
      {"fusion",
       "epilogue",
       "bias, activation and the move to heads inside the products before them, layernorm by itself",
       [](const Arguments &arguments, PipelineOptions &options) {
         options.without.insert(&fuseNormPass);
         options.options[&fuseEpiloguePass].insert_or_assign("residual", arguments.find("residual")->second != 0);
       },
       {{"residual", "the residual addition, too", 0, 1, 1}}},
      {"fusion", "norm", "layernorm inside the product after it or the addition before it, nothing behind products",
       [](const Arguments &, PipelineOptions &options) {
         options.without.insert({&fuseEpiloguePass, &fuseScorePass});
       }},
      {"kv_cache", "on", "keys and values of the past stay in memory, one token a step",
       [](const Arguments &, PipelineOptions &) {}},
      {"kv_cache", "off", "every new token evaluates its whole sequence again",
       [](const Arguments &, PipelineOptions &options) { options.without.insert(&insertKvCachePass); }},
      {"graphs", "on", "a call is one CUDA graph, tokens are chosen on the device",
       [](const Arguments &, PipelineOptions &) {}},
      {"graphs", "off", "every step is a launch of its own, tokens are chosen on the host",
       [](const Arguments &, PipelineOptions &options) { options.stepByStep = true; }},
      {"decode", "auto", "persistent where it runs and is faster, else graph",
       [](const Arguments &, PipelineOptions &options) { options.decode = "auto"; }},
      {"decode", "graph", "a new token takes a kernel for each product and each attention of its layers",
       [](const Arguments &, PipelineOptions &options) { options.decode = "graph"; }},
      {"decode",
       "persistent",
       "one kernel for all layers of a new token, whose blocks stay and exchange what they must",
       [](const Arguments &arguments, PipelineOptions &options) {
         options.decode = "persistent";
         configure(options, "decode_layers", settings(arguments));
       },
       {{"blocks", "of a cluster", 1, 8},
        {"clusters", "of blocks, which share the heads", 1, 32},
        {"stages", "of a block's ring of weights", 2, 32},
        {"in_flight", "units of weights on their way from memory at a time, at most", 1, 32},
        {"logits_in_flight", "the same of the last product's weight", 1, 32},
        {"warp_parts", "parts of 64 of the depth, or of 8 columns, that a warp has of a unit of weights", 1, 8},
        {"ahead", "units of weights that a warp takes before it waits for rows", 1, 8},
        {"lead", "waits in front of which it takes them: 1, for rows, or 2, for other clusters, too", 1, 2},
        {"deep", "keys that a lane loads before it needs the first", 1, 8},
        {"direct", "slots of a query that go to all blocks of a cluster without being combined", 1, 4}}},
      {"copies", "overlapped", "the first call computes while weights of later layers are on their way",
       [](const Arguments &, PipelineOptions &) {}},
      {"copies", "first", "nothing is computed before all weights are on the device",
       [](const Arguments &, PipelineOptions &options) { options.weightsFirst = true; }},
      {"parameters", "memory", "kernels read all weights from global memory",
       [](const Arguments &, PipelineOptions &) {}},
      {"parameters",
       "constant",
       "kernels have layernorm's weight and bias in constant memory, as far as it holds them",
       [](const Arguments &arguments, PipelineOptions &options) {
         bool all = arguments.find("biases")->second != 0;
         options.without.insert(&foldNormParametersPass);
         options.options[&placeParametersPass].insert_or_assign("constants",
                                                                Attribute::ident(all ? "vectors" : "layernorm"));
       },
       {{"biases", "biases of products, too", 0, 1, 0}}},
      {"launches", "early", "a kernel may start before the one in front of it has ended, and waits for its results",
       [](const Arguments &, PipelineOptions &) {}},
      {"launches", "serial", "a kernel starts when the one in front of it has ended",
       [](const Arguments &, PipelineOptions &options) { options.serial = true; }},
      {"restrict", "off", "kernels take plain pointers", [](const Arguments &, PipelineOptions &) {}},
      // With const and restrict, the compiler may move reads to the start of the kernel, and may use a cache that sees
      // no writes. All writes of earlier kernels must be done by then.
      {"restrict",
       "on",
       "tensors are __restrict__ parameters of kernels, which then start when the one in front of them has ended",
       [](const Arguments &, PipelineOptions &options) { options.restrictPointers = options.serial = true; },
       {},
       {"launches=early"}},
      {"precision", "f32", "weights, activations and products in fp32",
       [](const Arguments &, PipelineOptions &options) { options.dtype = "f32"; }},
      {"precision", "tf32", "fp32, but factors of products of prompts rounded to 11 bits for tensor cores",
       [](const Arguments &, PipelineOptions &options) { options.dtype = "tf32"; }},
      {"precision", "bf16", "weights, activations and cache in bf16, sums in fp32",
       [](const Arguments &, PipelineOptions &options) { options.dtype = "bf16"; }},
      {"precision", "f16", "weights, activations and cache in fp16, sums in fp32",
       [](const Arguments &, PipelineOptions &options) { options.dtype = "f16"; }},
  };
}

} // namespace kiln
