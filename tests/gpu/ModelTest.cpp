// Whole models on a device, compared with the reference executor and with themselves.

#include "gpu/SharpWeights.h"
#include "runtime/TestDevice.h"
#include "unit/TestSupport.h"

#include "runtime/generation/Generator.h"
#include "tools/session/Engine.h"
#include "tools/session/Tolerance.h"

#include <cstdlib>
#include <random>

namespace kiln {
namespace {

using Ids = std::vector<int32_t>;
using Rows = std::vector<std::vector<float>>;

struct ModelCase {
  std::string name;
  std::string toml; ///< a model with random weights; empty: the embedded model
  DType dtype;
  std::string matmul; ///< the value of --matmul
};

void PrintTo(const ModelCase &c, std::ostream *os) {
  *os << c.name << ' ' << dtypeName(c.dtype).str() << ' ' << c.matmul;
}

std::vector<ModelCase> modelCases() {
  const std::pair<StringRef, StringRef> models[] = {{"small", R"(vocab_size = 101
n_positions = 48
n_embd = 64
n_layer = 2
n_head = 2
n_inner = 256
activation_function = "gelu_new"
layer_norm_epsilon = 1e-5
tie_word_embeddings = true
)"},
                                                    {"odd", R"(vocab_size = 517
n_positions = 40
n_embd = 120
n_layer = 3
n_head = 3
n_inner = 200
activation_function = "gelu"
layer_norm_epsilon = 1e-3
scale_attn_by_inverse_layer_idx = true
tie_word_embeddings = false
)"},
                                                    {"embedded", ""}};
  std::vector<ModelCase> cases;
  for (auto [name, toml] : models)
    for (DType dtype : {DType::F32, DType::BF16, DType::F16})
      for (StringRef matmul : {"generated", "cublaslt"})
        cases.push_back({name.str(), toml.str(), dtype, matmul.str()});
  return cases;
}

size_t best(ArrayRef<float> logits) { return llvm::max_element(logits) - logits.begin(); }

/// The source tree: $KILN_SOURCE, the place where the program was built, or the current directory.
std::string sourceDirectory() {
  if (const char *given = std::getenv("KILN_SOURCE"))
    return given;
  return llvm::sys::fs::exists(KILN_SOURCE_DIR "/graphs") ? KILN_SOURCE_DIR : ".";
}

class ModelTest : public testing::TestWithParam<ModelCase> {
protected:
  ModelTest() {
    if (GetParam().toml.empty())
      source = unwrap(openModel({.model = sourceDirectory() + "/graphs/shakespeare-5m",
                                 .pipeline = {.dtype = dtypeName(GetParam().dtype).str(), .matmul = GetParam().matmul},
                                 .batch = 4}));
    else
      makeModel();
    vocabulary = source.module->intAttribute("vocab");
    std::mt19937 generator(3);
    for (size_t length : {5, 1, 17, 8}) {
      Ids &prompt = prompts.emplace_back(length);
      for (int32_t &token : prompt)
        token = static_cast<int32_t>(generator() % vocabulary);
    }
  }

  void makeModel() {
    source.sources = std::make_unique<SourceManager>();
    source.modelPath = directory.write(GetParam().name + ".toml", GetParam().toml);
    source.compileOptions.build.maxBatch = 4;
    source.compileOptions.pipeline.dtype = dtypeName(GetParam().dtype).str();
    source.compileOptions.pipeline.matmul = GetParam().matmul;
    source.module = unwrap(compileToStage(source.modelPath, Stage::Fused, source.compileOptions, *source.sources));
    source.weights = std::make_shared<SharpWeights>();
  }

  std::unique_ptr<Engine> open(StringRef device, bool checkReference = false) {
    EngineOptions options;
    options.device = device.str();
    options.batch = 4;
    options.entries = {Entry::Prefill, Entry::Decode};
    options.checkReference = checkReference;
    options.checkAccesses = false; // on the emulated device
    return unwrap(openEngine(source, options));
  }

  /// The logits after the prompts, and after each of `steps` further tokens: the tokens with the largest logits, or
  /// those in `chosen`.
  static std::vector<Rows> logitsOf(LanguageModel &model, ArrayRef<Ids> prompts, int steps, std::vector<Ids> *chosen) {
    std::vector<Rows> all;
    Rows rows(prompts.size());
    expectSuccess(model.prefill(prompts, rows));
    all.push_back(rows);
    for (int step = 0; step < steps; ++step) {
      if (static_cast<int>(chosen->size()) == step) {
        Ids &tokens = chosen->emplace_back();
        for (const std::vector<float> &row : rows)
          tokens.push_back(static_cast<int32_t>(best(row)));
      }
      expectSuccess(model.decode((*chosen)[step], rows));
      all.push_back(rows);
    }
    return all;
  }

  void expectClose(ArrayRef<float> got, ArrayRef<float> wanted, const Twine &where) const {
    const double allowed = logitTolerance(GetParam().dtype, false, ModelSize::Small) * largestSize(wanted);
    EXPECT_LE(largestDifference(got, wanted), allowed) << where.str();
    // Logits may change order only if they differ by less than their error.
    EXPECT_GE(wanted[best(got)], wanted[best(wanted)] - 2 * allowed) << where.str();
  }

  TemporaryDirectory directory;
  ModelSource source;
  int64_t vocabulary = 0;
  std::vector<Ids> prompts;
};

TEST_P(ModelTest, LogitsAreThoseOfTheReference) {
  std::vector<Ids> chosen;
  auto reference = open("cpu"), device = open(testDeviceName());
  std::vector<Rows> wanted = logitsOf(reference->model(), prompts, 6, &chosen);
  std::vector<Rows> got = logitsOf(device->model(), prompts, 6, &chosen);
  for (size_t step = 0; step < wanted.size(); ++step)
    for (size_t row = 0; row < prompts.size(); ++row)
      expectClose(got[step][row], wanted[step][row], "row " + Twine(row) + " step " + Twine(step));
}

TEST_P(ModelTest, EveryStepIsThatOfTheReference) {
  auto engine = open(testDeviceName(), /*checkReference=*/true);
  GenerateOptions options;
  options.maxNewTokens = 3;
  options.sampling.greedy = true;
  unwrap(generate(engine->model(), nullptr, prompts, options));
  EXPECT_GT(engine->stepsChecked(), 20);
}

TEST_P(ModelTest, ACacheHoldsWhatThePromptWouldGive) {
  auto engine = open(testDeviceName());
  std::vector<Ids> chosen, whole = {prompts[2]};
  std::vector<Rows> cached = logitsOf(engine->model(), whole, 10, &chosen);
  for (size_t step = 0; step <= 10; ++step) {
    Rows uncached(1);
    expectSuccess(engine->model().prefill(whole, uncached));
    expectClose(cached[step][0], uncached[0], "step " + Twine(step));
    if (step < 10)
      whole[0].push_back(chosen[step][0]);
  }
}

TEST_P(ModelTest, RowsOfABatchAreAsIfAlone) {
  auto engine = open(testDeviceName());
  std::vector<Ids> chosen;
  std::vector<Rows> together = logitsOf(engine->model(), prompts, 3, &chosen);
  for (size_t row = 0; row < prompts.size(); ++row) {
    std::vector<Ids> own;
    for (const Ids &step : chosen)
      own.push_back({step[row]});
    std::vector<Rows> alone = logitsOf(engine->model(), prompts[row], 3, &own);
    for (size_t step = 0; step < alone.size(); ++step)
      expectClose(together[step][row], alone[step][0], "row " + Twine(row) + " step " + Twine(step));
  }
}

TEST_P(ModelTest, TwoRunsAreTheSameToTheLastBit) {
  std::vector<Ids> chosen;
  auto first = open(testDeviceName());
  std::vector<Rows> wanted = logitsOf(first->model(), prompts, 4, &chosen);
  for (int run = 0; run < 5; ++run)
    EXPECT_EQ(logitsOf(first->model(), prompts, 4, &chosen), wanted);
  EXPECT_EQ(logitsOf(open(testDeviceName())->model(), prompts, 4, &chosen), wanted);
}

INSTANTIATE_TEST_SUITE_P(Models, ModelTest, testing::ValuesIn(modelCases()), [](const auto &info) {
  return info.param.name + "_" + dtypeName(info.param.dtype).str() + "_" + info.param.matmul;
});

} // namespace
} // namespace kiln
