#include "IrSupport.h"

#include "kernels/families/KernelFamily.h"
#include "strategies/Strategy.h"

namespace kiln {
namespace {

/// The strategy that is recorded in the options, or the error.
std::string applied(StringRef text, PipelineOptions options = {}) {
  Error error = applyStrategies(text, options);
  return error ? messageOf(std::move(error)) : options.strategy;
}

TEST(StrategyTest, IsRecordedAsItWasAskedFor) {
  EXPECT_EQ(applied("matmul=tiled"), "matmul=tiled");
  EXPECT_EQ(applied("  layernorm = 3 , fusion=off "), "layernorm=3,fusion=off");
  // Defaults are not recorded.
  EXPECT_EQ(applied("layernorm=5"), "layernorm=5");
  EXPECT_EQ(applied("layernorm=5{ threads = 128 },matmul=tiled{}"), "layernorm=5{threads=128},matmul=tiled");
}

TEST(StrategyTest, SetsOptionsOfThePipeline) {
  PipelineOptions options;
  cantFail(applyStrategies("matmul=tiled{tile_rows=64},attention=unfused,layernorm=5,precision=bf16", options));
  EXPECT_EQ(Attribute(options.kernels).str(), "{layernorm = layernorm, matmul = gemm_simt}");
  EXPECT_EQ(Attribute(options.tiles).str(),
            "{gemm_simt = {tile_rows = 64}, layernorm = {row_threads = 256, threads = 256, vec = 1}}");
  EXPECT_EQ(options.without, (std::set<const PassDef *>{&foldNormParametersPass, &fuseAttentionPass, &fuseNormPass}));
  EXPECT_EQ(options.dtype, "bf16");
}

TEST(StrategyTest, PassesAreLeftOutAndGetTheirOptions) {
  PipelineOptions options;
  cantFail(applyStrategies("attention=unfused,fusion=epilogue{residual=0}", options));
  std::vector<std::string> names, wanted;
  for (const PassInvocation &pass : pipeline(Stage::Fused, options))
    names.push_back(pass.str());
  // Where a pass is left out, @decode keeps a kernel for each step.
  for (const PassInvocation &pass : pipeline(Stage::Fused, {}))
    if (pass.pass != &fuseAttentionPass && pass.pass != &fuseNormPass && pass.pass != &formPersistentKernelPass)
      wanted.push_back(pass.str() + (pass.pass == &fuseEpiloguePass ? "{residual = false}" : ""));
  EXPECT_EQ(names, wanted);
  EXPECT_EQ(names.size() + 3, pipeline(Stage::Fused, {}).size());
}

TEST(StrategyTest, ErrorsNameThePlace) {
  EXPECT_EQ(applied("matmul=fast"),
            "--strategy:1:8: error: unknown matmul 'fast', expected one of auto, naive, tiled, tensor, wgmma, "
            "wmma, split_k, cublaslt\n");
  EXPECT_TRUE(StringRef(applied("fusion=on, gemm=fast"))
                  .starts_with("--strategy:1:12: error: unknown topic 'gemm', expected one of matmul, attention, "));
  EXPECT_TRUE(StringRef(applied("")).starts_with("--strategy:1:1: error: expected a topic, one of matmul, "));
  EXPECT_TRUE(StringRef(applied("fusion=on,")).starts_with("--strategy:1:11: error: expected a topic, one of "));
  EXPECT_EQ(applied("fusion"), "--strategy:1:7: error: expected '=' after the topic fusion, got the end of the text\n");
  EXPECT_EQ(applied("fusion="),
            "--strategy:1:8: error: expected one of on, off, epilogue, norm, got the end of the text\n");
  EXPECT_EQ(applied("fusion=on;"), "--strategy:1:10: error: expected ',' between strategies, got ';'\n");
}

TEST(StrategyTest, ErrorsOfParametersNameThePlace) {
  EXPECT_EQ(applied("layernorm=3{thread=1}"), "--strategy:1:13: error: unknown parameter 'thread' of layernorm=3, "
                                              "expected one of threads\n");
  EXPECT_EQ(applied("fusion=on{a=1}"), "--strategy:1:11: error: unknown parameter 'a' of fusion=on, expected none\n");
  for (StringRef value : {"31", "1025", "x", "3.0", "[64]"})
    EXPECT_EQ(StringRef(applied(("layernorm=3{threads=" + value + "}").str())).split('\n').first,
              ("--strategy:1:21: error: threads: expected an integer from 32 to 1024, got " + value).str());
  EXPECT_EQ(StringRef(applied("layernorm=3{threads=64,threads=64}")).split('\n').first,
            "--strategy:1:24: error: 'threads' is given twice");
  EXPECT_EQ(StringRef(applied("layernorm=3{threads=64")).split('\n').first,
            "--strategy:1:23: error: expected '}', got the end of the text");
  EXPECT_EQ(StringRef(applied("layernorm=3{threads=3x}")).split('\n').first,
            "--strategy:1:22: error: expected '}', got 'x'");
  EXPECT_EQ(StringRef(applied("layernorm=3{threads=99999999999999999999}")).split('\n').first,
            "--strategy:1:21: error: expected an integer of 64 bits, got 99999999999999999999");
  std::string deep(100000, '{');
  for (char &c : deep)
    c = "{a="[(&c - deep.data()) % 3];
  EXPECT_EQ(StringRef(applied("layernorm=3" + deep)).split('\n').first,
            "--strategy:1:66: error: attributes are nested too deeply");
}

TEST(StrategyTest, RefusesWhatContradictsItself) {
  EXPECT_EQ(applied("matmul=tiled,matmul=auto"), "--strategy:1:14: error: topic 'matmul' is given twice\n"
                                                 "--strategy:1:1: note: first given here\n");
  // The order does not matter.
  for (StringRef text : {"layernorm=3,fusion=norm", "fusion=norm,layernorm=3"})
    EXPECT_TRUE(StringRef(applied(text)).contains(" exclude each other\n")) << text.str();
  PipelineOptions options{.dtype = "f16", .matmul = "cublaslt"};
  EXPECT_EQ(StringRef(applied("precision=bf16", options)).split('\n').first,
            "--strategy:1:1: error: precision=bf16 and --dtype f16 exclude each other");
  EXPECT_EQ(StringRef(applied("matmul=tiled", options)).split('\n').first,
            "--strategy:1:1: error: matmul=tiled and --matmul cublaslt exclude each other");
  EXPECT_EQ(applied("precision=f16,matmul=cublaslt", options), "precision=f16,matmul=cublaslt");
}

TEST(StrategyTest, TheTableIsSound) {
  std::set<std::string> names;
  for (const Strategy &strategy : allStrategies())
    EXPECT_TRUE(names.insert((strategy.topic + "=" + strategy.name).str()).second);
  for (const Strategy &strategy : allStrategies()) {
    EXPECT_FALSE(strategy.summary.empty());
    for (StringRef other : strategy.excludes)
      EXPECT_EQ(names.count(other.str()), 1u) << other.str();
    for (const StrategyParameter &parameter : strategy.parameters) {
      EXPECT_FALSE(parameter.doc.empty());
      EXPECT_LT(parameter.least, parameter.most);
      EXPECT_GE(parameter.defaultValue.value_or(parameter.least), parameter.least);
    }
    // Each can be applied alone, and everything that it names exists.
    PipelineOptions options;
    cantFail(applyStrategies((strategy.topic + "=" + strategy.name).str(), options));
    for (const auto &[kind, family] : options.kernels) {
      EXPECT_TRUE(opTable().find(kind)) << kind;
      EXPECT_TRUE(findKernelFamily(family.asString())) << family.str();
    }
    for (const auto &[name, tile] : options.tiles)
      EXPECT_TRUE(findKernelFamily(name) || opTable().find(name) || name == "bias" || name == "residual") << name;
  }
}

} // namespace
} // namespace kiln
