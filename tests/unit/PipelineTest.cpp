#include "IrSupport.h"

#include "driver/Compile.h"

namespace kiln {
namespace {

class PipelineTest : public IrTest {
protected:
  /// A model of this many layers at a stage.
  std::unique_ptr<Module> compile(int layers, Stage stage, DType dtype = DType::F32) {
    std::string model = directory.write("tiny.toml", formatv(R"(vocab_size = 37
n_positions = 16
n_embd = 16
n_layer = {0}
n_head = 2
n_inner = 64
activation_function = "gelu_new"
layer_norm_epsilon = 1e-5
tie_word_embeddings = true
)",
                                                             layers)
                                                         .str());
    CompileOptions options;
    options.pipeline.dtype = dtypeName(dtype).str();
    return unwrap(compileToStage(model, stage, options, sources));
  }

  static size_t kernels(const Module &module, StringRef function) {
    return module.findFunction(function)->body.ops().size() - 1; // all but the return
  }

  TemporaryDirectory directory;
};

TEST_F(PipelineTest, ALayerIsFiveKernels) {
  for (DType dtype : {DType::F32, DType::BF16})
    for (int layers : {1, 2, 5}) {
      auto module = compile(layers, Stage::Fused, dtype);
      // The embedding before them and the logits behind; two selections of last rows in @prefill.
      EXPECT_EQ(kernels(*module, "score"), 1u + 5 * layers + 1);
      EXPECT_EQ(kernels(*module, "decode"), 1u + 5 * layers + 1);
      EXPECT_EQ(kernels(*module, "prefill"), 1u + 5 * layers + 2 + 1);
    }
}

TEST_F(PipelineTest, StagesStopWhereTheySay) {
  auto graph = compile(1, Stage::Graph);
  EXPECT_FALSE(graph->findFunction("decode"));
  EXPECT_TRUE(graph->states.empty());
  auto fused = compile(1, Stage::Fused);
  EXPECT_EQ(fused->attributes.count("target"), 0u);
  auto planned = compile(1, Stage::Plan);
  EXPECT_EQ(planned->attributes.find("target")->second.str(), "sm_90a");
  for (const auto &function : planned->functions) {
    EXPECT_EQ(function->attributes.count("arena"), 1u);
    for (const auto &op : function->body.ops()) {
      bool isPlanned = op->attribute("kernel") && op->attribute("tile") && op->attribute("offsets");
      EXPECT_TRUE(isPlanned || op->has(Trait::Terminator)) << toLine(*op);
    }
  }
  // What follows has no IR.
  EXPECT_EQ(toString(*planned), toString(*compile(1, Stage::Cuda)));
  EXPECT_EQ(toString(*planned), toString(*compile(1, Stage::Cubin)));
}

TEST_F(PipelineTest, TheSameModelGivesTheSamePlan) {
  EXPECT_EQ(toString(*compile(2, Stage::Plan)), toString(*compile(2, Stage::Plan)));
}

} // namespace
} // namespace kiln
