//===- RuntimeTest.h - a small model's plan on this program's device --------===//
#pragma once

#include "runtime/CountingDevice.h"
#include "runtime/TestDevice.h"
#include "unit/TestSupport.h"

#include "codegen/CompilePlan.h"
#include "driver/Compile.h"
#include "runtime/generation/Generator.h"
#include "runtime/generation/PlanModel.h"
#include "runtime/weights/RandomCheckpoint.h"
#include "strategies/Strategy.h"

namespace kiln {

using Ids = std::vector<int32_t>;

class RuntimeTest : public testing::Test {
protected:
  static constexpr int64_t maxBatch = 8, context = 24;

  RuntimeTest() : RuntimeTest(/*width=*/16, "f32", maxBatch) {}

  /// A model of two layers. `width`: n_embd; `draftTokens`, `decode`: as PipelineOptions has them. Without
  /// `fusesResidual`, @prefill has a last_row of its own.
  RuntimeTest(int64_t width, StringRef dtype, int64_t batch, int64_t draftTokens = 0, StringRef decode = "graph",
              int64_t positions = context, int64_t ranks = 1, bool fusesResidual = true)
      : positions(positions) {
    std::string text = R"(vocab_size = 101
n_layer = 2
activation_function = "gelu_new"
layer_norm_epsilon = 1e-5
tie_word_embeddings = true
)";
    text += "n_head = " + std::to_string(std::max<int64_t>(2, ranks)) + "\n";
    text += "n_positions = " + std::to_string(positions) + "\n";
    text += "n_embd = " + std::to_string(width) + "\nn_inner = " + std::to_string(4 * width) + "\n";
    directory.write("tiny.toml", text);
    options.pipeline.dtype = dtype.str();
    options.pipeline.draftTokens = draftTokens;
    options.pipeline.decode = decode.str();
    options.pipeline.ranks = ranks;
    if (!fusesResidual)
      options.pipeline.options[&fuseEpiloguePass] = {{"residual", false}};
    // Enough to wait for each other; the emulator runs all of their threads.
    if (decode == "persistent")
      options.pipeline.tiles = {{"decode_layers", AttributeMap{{"clusters", 2}}}};
    options.build.maxBatch = batch;
    compile();
    counted = unwrap(openTestDevice());
    device = std::make_unique<CountingDevice>(*counted);
  }

  std::string planDirectory() const { return directory.str() + "/plan"; }

  /// Writes the plan, with these strategies.
  void compile(StringRef strategies = "") {
    if (!strategies.empty())
      expectSuccess(applyStrategies(strategies, options.pipeline));
    auto module = unwrap(compileToStage(directory.str() + "/tiny.toml", Stage::Plan, options, sources));
    expectSuccess(writePlanDirectory(planDirectory(), unwrap(generate(*module)), {}, {}));
  }

  Expected<std::unique_ptr<Executor>> open(const WeightSource &source, int64_t batch) {
    return open(source, batch, unwrap(readPlan(planDirectory())));
  }
  Expected<std::unique_ptr<Executor>> open(const WeightSource &source, int64_t batch, Plan plan) {
    return Executor::create(*device, std::move(plan), {planDirectory(), ""}, source, {batch, positions, entries});
  }

  /// The logits of a prompt for each sequence.
  std::vector<float> prefill(Executor &executor, int64_t batch, int64_t tokens) {
    Ids ids, lengths;
    for (int64_t i = 0; i < batch * tokens; ++i)
      ids.push_back(static_cast<int32_t>(i * 7 % 101));
    for (int64_t row = 0; row < batch; ++row)
      lengths.push_back(static_cast<int32_t>(tokens - (batch - 1 - row) % 2));
    Executor::Call call = executor.call(Entry::Prefill, batch, tokens);
    call.arguments = {{"tokens", ids}, {"lengths", lengths}};
    expectSuccess(executor.enqueue(call));
    std::vector<float> logits(static_cast<size_t>(batch) * 101);
    expectSuccess(executor.download("logits", 0, logits));
    return logits;
  }

  const int64_t positions; ///< of the model
  TemporaryDirectory directory;
  CompileOptions options;
  SourceManager sources;
  std::vector<Entry> entries = {Entry::Prefill, Entry::Decode}; ///< that executors have
  std::unique_ptr<Device> counted;
  std::unique_ptr<CountingDevice> device;
  RandomCheckpoint weights{/*seed=*/5, /*layers=*/2};
};

} // namespace kiln
