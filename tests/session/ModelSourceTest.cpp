#include "unit/TestSupport.h"

#include "codegen/CompilePlan.h"
#include "ir/Printer.h"
#include "tools/session/Engine.h"
#include "tools/session/UsageError.h"

namespace kiln {
namespace {

using Reference = ModelRequest::Reference;

constexpr StringRef tinyModel = "vocab_size = 31\nn_positions = 16\nn_embd = 16\nn_layer = 1\nn_head = 1\n";

class ModelSourceTest : public testing::Test {
protected:
  ModelSourceTest() : model(directory.write("tiny.toml", tinyModel)), plan(directory.str() + "/tiny.plan") {
    compile({});
  }

  /// Writes the plan.
  void compile(const PipelineChoices &choices) {
    SourceManager sources;
    CompileOptions options;
    options.pipeline = unwrap(pipelineOptions(choices));
    auto fused = unwrap(compileToStage(model, Stage::Fused, options, sources));
    auto module = unwrap(compileToStage(model, Stage::Plan, options, sources));
    expectSuccess(writePlanDirectory(plan, unwrap(generate(*module)), {}, {{"fused", toString(*fused)}}));
  }

  ModelRequest request(StringRef of, Reference reference, PipelineChoices choices = {}) const {
    ModelRequest request;
    request.model = of.str();
    request.weights.randomSeed = 1;
    request.pipeline = std::move(choices);
    request.reference = reference;
    return request;
  }

  /// The message of a UsageError without the directory's name; "" for success.
  std::string refused(Expected<ModelSource> source) const {
    Error error = source.takeError();
    EXPECT_TRUE(!error || error.isA<UsageError>());
    return directory.relative(messageOf(std::move(error)));
  }

  void remove(StringRef name) const { EXPECT_FALSE(llvm::sys::fs::remove(plan + "/" + name)); }

  TemporaryDirectory directory;
  std::string model, plan;
};

TEST_F(ModelSourceTest, APlanIsReadOnce) {
  ModelSource source = unwrap(openModel(request(plan, Reference::Compares)));
  remove("plan.toml");
  remove("ir/fused.kiln");
  EXPECT_EQ(unwrap(locatePlan(source)).directory, plan);
  EXPECT_TRUE(unwrap(locatePlan(source)).plan.findFunction("decode"));
  EXPECT_TRUE(source.module->findFunction("decode"));
}

TEST_F(ModelSourceTest, TheIrOfAPlanIsReadWhereItIsNeeded) {
  remove("ir/fused.kiln");
  ModelSource source = unwrap(openModel(request(plan, Reference::Unused)));
  EXPECT_EQ(source.module, nullptr);
  EXPECT_EQ(source.model().vocabulary, 31);
  for (Reference reference : {Reference::Compares, Reference::Runs})
    EXPECT_EQ(directory.relative(messageOf(openModel(request(plan, reference)))),
              "tiny.plan/ir/fused.kiln: error: cannot read: No such file or directory\n");
}

TEST_F(ModelSourceTest, APlanRefusesWhatItWasCompiledWith) {
  const std::pair<PipelineChoices, StringRef> cases[] = {
      {{.dtype = "bf16"},
       "--dtype: tiny.plan is a compiled plan of dtype f32; compile the model again with --dtype bf16"},
      {{.dtype = "f32"},
       "--dtype: tiny.plan is a compiled plan of dtype f32; compile the model again with --dtype f32"},
      {{.matmul = "auto"}, "--matmul: tiny.plan is a compiled plan; compile the model again with --matmul auto"},
      {{.strategy = "fusion=off"},
       "--strategy: tiny.plan is a compiled plan; compile the model again with --strategy fusion=off"},
      {{.tuning = "none"}, "--tuning: tiny.plan is a compiled plan; compile the model again with --tuning none"}};
  for (const auto &[choices, message] : cases)
    for (Reference reference : {Reference::Unused, Reference::Compares, Reference::Runs})
      EXPECT_EQ(refused(openModel(request(plan, reference, choices))), "error: " + message.str() + "\n");
}

TEST_F(ModelSourceTest, TheReferenceExecutorRefusesWhatIsAboutKernels) {
  const std::string who = ": the reference executor (--device cpu, or auto without a GPU) ";
  const std::string remedy = "; use --device emulate or cuda:N\n";
  const std::string noKernels = "runs no kernels", onlyGraph = "runs the fused graph in fp32, and no kernels";
  const std::tuple<PipelineChoices, std::string, std::string> cases[] = {
      {{.dtype = "bf16"}, "--dtype bf16", "computes in fp32"},
      {{.dtype = "tf32"}, "--dtype tf32", "computes in fp32"},
      {{.matmul = "generated"}, "--matmul generated", noKernels},
      {{.tuning = "shipped"}, "--tuning shipped", noKernels},
      {{.strategy = "matmul=tiled"}, "--strategy matmul=tiled", onlyGraph},
      {{.strategy = "precision=f16"}, "--strategy precision=f16", onlyGraph},
      {{.strategy = "graphs=off"}, "--strategy graphs=off", onlyGraph},
      {{.strategy = "parameters=constant"}, "--strategy parameters=constant", onlyGraph},
      {{.strategy = "attention=unfused,softmax=thread"}, "--strategy attention=unfused,softmax=thread", onlyGraph}};
  for (const auto &[choices, what, does] : cases) {
    EXPECT_EQ(refused(openModel(request(model, Reference::Runs, choices))), "error: " + what + who + does + remedy);
    expectSuccess(openModel(request(model, Reference::Compares, choices)).takeError());
  }
  // The reference executor honours strategies that change the graph.
  for (StringRef strategy : {"attention=unfused", "fusion=off", "kv_cache=off", "layernorm=best", "precision=f32",
                             "attention=windowed{w=5}"})
    expectSuccess(openModel(request(model, Reference::Runs, {.strategy = strategy.str()})).takeError());
  expectSuccess(openModel(request(model, Reference::Runs, {.dtype = "f32"})).takeError());
}

TEST_F(ModelSourceTest, TheReferenceExecutorRefusesPlansOfAnotherPrecision) {
  for (StringRef dtype : {"bf16", "f16", "tf32"}) {
    compile({.dtype = dtype.str()});
    EXPECT_EQ(refused(openModel(request(plan, Reference::Runs))),
              "error: tiny.plan is of dtype " + dtype.str() +
                  ": the reference executor (--device cpu, or auto without a GPU) computes in fp32; use --device "
                  "emulate or cuda:N\n");
    expectSuccess(openModel(request(plan, Reference::Compares)).takeError());
  }
}

TEST_F(ModelSourceTest, IrRefusesWhatItHasBehindIt) {
  std::string fused = plan + "/ir/fused.kiln";
  EXPECT_EQ(refused(openModel(request(fused, Reference::Compares, {.dtype = "f32"}))),
            "error: --dtype: tiny.plan/ir/fused.kiln is IR, which has its dtypes; compile the model again with --dtype "
            "f32\n");
  for (StringRef strategy : {"fusion=off", "precision=bf16"})
    EXPECT_EQ(refused(openModel(request(fused, Reference::Compares, {.strategy = strategy.str()}))),
              "error: --strategy: tiny.plan/ir/fused.kiln is IR, which is as fused as it is to become and has its "
              "dtypes; compile the model again with --strategy " +
                  strategy.str() + "\n");
  expectSuccess(
      openModel(request(fused, Reference::Compares, {.strategy = "matmul=tiled", .tuning = "none"})).takeError());

  SourceManager sources;
  std::string planned =
      directory.write("planned.kiln", toString(*unwrap(compileToStage(model, Stage::Plan, {}, sources))));
  EXPECT_EQ(refused(openModel(request(planned, Reference::Compares, {.tuning = "none"}))),
            "error: --tuning: the ops of planned.kiln have kernels already; give IR without them, or compile the model "
            "again with --tuning none\n");
}

TEST_F(ModelSourceTest, OptionsAndStrategiesThatDisagree) {
  auto message = [](const PipelineChoices &choices) { return messageOf(pipelineOptions(choices)); };
  EXPECT_EQ(message({.dtype = "f32", .strategy = "precision=bf16"}),
            "error: --dtype f32 and --strategy precision=bf16, which stands for --dtype bf16, exclude each other\n");
  EXPECT_EQ(
      message({.matmul = "generated", .strategy = "matmul=cublaslt"}),
      "error: --matmul generated and --strategy matmul=cublaslt, which stands for --matmul cublaslt, exclude each "
      "other\n");
  EXPECT_EQ(message({.dtype = "bf16", .strategy = "precision=bf16"}), "");
}

TEST_F(ModelSourceTest, DevicesWithKernels) {
  EXPECT_EQ(unwrap(resolveKernelDevice("kiln bench", "emulate")), "emulate");
  EXPECT_EQ(unwrap(resolveKernelDevice("kiln bench", "cuda:3")), "cuda:3");
  EXPECT_EQ(messageOf(resolveKernelDevice("kiln bench", "cpu")),
            "error: --device cpu: the reference executor, which runs no kernels; kiln bench takes --device emulate or "
            "cuda:N\n");
}

} // namespace
} // namespace kiln
