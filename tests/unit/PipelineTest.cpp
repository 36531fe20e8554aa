#include "IrSupport.h"

#include "driver/Compile.h"

namespace kiln {
namespace {

class PipelineTest : public IrTest {
protected:
  /// A model of this many layers at a stage.
  std::unique_ptr<Module> compile(int layers, Stage stage, DType dtype = DType::F32,
                                  StringRef activation = "gelu_new") {
    std::string model = directory.write("tiny.toml", formatv(R"(vocab_size = 37
n_positions = 16
n_embd = 16
n_layer = {0}
n_head = 2
n_inner = 64
activation_function = "{1}"
layer_norm_epsilon = 1e-5
tie_word_embeddings = true
)",
                                                             layers, activation)
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
      // There are also the embedding and the logits.
      for (const char *function : {"score", "decode", "prefill"})
        EXPECT_EQ(kernels(*module, function), 1u + 5 * layers + 1) << function;
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
  // Later stages have no IR.
  EXPECT_EQ(toString(*planned), toString(*compile(1, Stage::Cuda)));
  EXPECT_EQ(toString(*planned), toString(*compile(1, Stage::Cubin)));
}

/// Bytes of a function's arena, or of those that are live together, for 8 sequences of 1024 tokens.
int64_t bytesOfPrompts(const Module &module, StringRef function, StringRef attribute) {
  Expr formula =
      unwrap(Expr::parse(module.findFunction(function)->attributes.find(attribute.str())->second.asString()));
  return unwrap(formula.evaluate({{"B", 8}, {"T", 1024}}));
}

TEST_F(PipelineTest, ScoresTakeTheMemoryOfPrompts) {
  for (StringRef dtype : {"bf16", "f16"}) {
    CompileOptions options;
    options.pipeline.dtype = dtype.str();
    options.build.maxBatch = 8;
    auto module = unwrap(compileToStage(sourcePath("graphs/gpt2-124m.toml"), Stage::Plan, options, sources));
    // Logits of all rows would be 1647 MB.
    EXPECT_LE(bytesOfPrompts(*module, "score", "live"), bytesOfPrompts(*module, "prefill", "live")) << dtype.str();
    // Zones of rows do not fit without gaps.
    EXPECT_LE(bytesOfPrompts(*module, "score", "arena"), 1.2 * bytesOfPrompts(*module, "prefill", "arena"))
        << dtype.str();
  }
}

TEST_F(PipelineTest, TheSameModelGivesTheSamePlan) {
  EXPECT_EQ(toString(*compile(2, Stage::Plan)), toString(*compile(2, Stage::Plan)));
}

/// Every activation in the table of ops works in a model, under each of its names.
TEST_F(PipelineTest, EveryActivationCanBeAModels) {
  std::set<StringRef> names;
  for (const OpDef *def : opTable().all())
    for (const ActivationName &activation : def->activationNames) {
      EXPECT_TRUE(names.insert(activation.name).second) << activation.name.str();
      EXPECT_TRUE(def->has(Trait::Pointwise) && def->operands.size() == 1) << def->mnemonic.str();
      auto module = compile(1, Stage::Graph, DType::F32, activation.name);
      const Op &made = op(*module, "score", "act.0");
      EXPECT_EQ(made.mnemonic(), def->mnemonic);
      EXPECT_EQ(Attribute(made.attributes()), Attribute(activation.attributes));
      // It is part of the products' kernels, like any activation.
      EXPECT_EQ(kernels(*compile(1, Stage::Fused, DType::F32, activation.name), "score"), 7u);
    }
  EXPECT_TRUE(names.count("gelu_new") && names.count("gelu") && names.count("relu"));
}

} // namespace
} // namespace kiln
