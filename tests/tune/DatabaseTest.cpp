#include "kernels/tuning/Tuning.h"

#include "driver/Compile.h"
#include "ops/Region.h"
#include "passes/lower/ChoiceBounds.h"
#include "unit/TestSupport.h"

namespace kiln {
namespace {

const char *const text = R"(# Written by kiln tune.
target = "sm_80"
device = "a GPU"

[[choice]]
problem = "layernorm(f32[B,T,64]) -> f32[B,T,64]"
rows = 8
kernel = "layernorm"
tile = {row_threads = 32, threads = 128, vec = 4}
us = 1.50
model_us = 2.25

[[choice]]
problem = "softmax(f32[B,T,64]) -> f32[B,T,64]"
rows = 8
kernel = "softmax"
tile = {online = true, row_threads = 32, threads = 128, vec = 1}
us = 3.00
model_us = 3.00
)";

Expected<TuningDatabase> parse(SourceManager &sources, StringRef changed, StringRef from = "", StringRef to = "") {
  std::string whole = changed.str();
  if (!from.empty())
    whole.replace(whole.find(from), from.size(), to);
  return TuningDatabase::parse(sources.add("measured.toml", whole));
}

TEST(TuningDatabase, IsWrittenAsItIsRead) {
  SourceManager sources;
  TuningDatabase database = unwrap(parse(sources, text));
  EXPECT_EQ(database.size(), 2u);
  EXPECT_EQ(database.str(), text);
  const TunedChoice *found = database.find("softmax(f32[B,T,64]) -> f32[B,T,64]", 8);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->choice.family->name, "softmax");
  EXPECT_TRUE(found->choice.tile.find("online")->second.asBool());
  EXPECT_DOUBLE_EQ(found->modelSeconds, 3e-6);
  EXPECT_FALSE(database.find("softmax(f32[B,T,64]) -> f32[B,T,64]", 16));
}

TEST(TuningDatabase, HasEntriesByTokensInTheCache) {
  SourceManager sources;
  const std::string other = "problem = \"layernorm(f32[B,T,64]) -> f32[B,T,64]\"\nrows = 8\ntokens = 128\n";
  TuningDatabase database =
      unwrap(parse(sources, text, "problem = \"softmax(f32[B,T,64]) -> f32[B,T,64]\"\nrows = 8\n", other));
  EXPECT_EQ(database.find("layernorm(f32[B,T,64]) -> f32[B,T,64]", 8)->choice.family->name, "layernorm");
  EXPECT_EQ(database.find("layernorm(f32[B,T,64]) -> f32[B,T,64]", 8, 128)->choice.family->name, "softmax");
  EXPECT_FALSE(database.find("layernorm(f32[B,T,64]) -> f32[B,T,64]", 8, 64));
  EXPECT_EQ(database.tokenBounds("layernorm(f32[B,T,64]) -> f32[B,T,64]"), std::vector<int64_t>{128});
  EXPECT_TRUE(database.tokenBounds("softmax(f32[B,T,64]) -> f32[B,T,64]").empty());
  EXPECT_NE(database.str().find(other), std::string::npos);
}

// Times of an entry with a call are those of the whole call.
TEST(TuningDatabase, AnEntryMayHaveTheCallInWhichItWasTried) {
  SourceManager sources;
  std::string inCall = StringRef(text).rtrim().str() + "\ncall = \"decode B=8 position=512\"\n";
  TuningDatabase database = unwrap(TuningDatabase::parse(sources.add("measured.toml", inCall)));
  EXPECT_EQ(database.str(), inCall);
  EXPECT_EQ(database.find("softmax(f32[B,T,64]) -> f32[B,T,64]", 8)->call, "decode B=8 position=512");
  EXPECT_EQ(database.find("layernorm(f32[B,T,64]) -> f32[B,T,64]", 8)->call, "");
}

TEST(TuningDatabase, AnEntryOfBf16StandsForF16) {
  SourceManager sources;
  const StringRef bf16 = "matmul(bf16[B,T,64], bf16[8,64], f32[8]) -> bf16[B,T,8]",
                  f16 = "matmul(f16[B,T,64], f16[8,64], f32[8]) -> f16[B,T,8]";
  TuningDatabase database = unwrap(parse(sources, text));
  auto set = [&](StringRef problem, int64_t tokens, double seconds) {
    database.set({problem.str(), 8, {findKernelFamily("softmax"), {}}, seconds, 0, tokens});
  };
  set(bf16, 0, 1e-6);
  set(bf16, 128, 2e-6);
  EXPECT_EQ(database.find(f16, 8), database.find(bf16, 8));
  EXPECT_EQ(database.find(f16, 8, 128), database.find(bf16, 8, 128));
  EXPECT_FALSE(database.find(f16, 16));
  EXPECT_FALSE(database.find("matmul(f32[B,T,64], f32[8,64], f32[8]) -> f32[B,T,8]", 8));
  EXPECT_EQ(database.tokenBounds(f16), std::vector<int64_t>{128});
  // But only if f16 has none.
  set(f16, 0, 3e-6);
  EXPECT_EQ(database.find(f16, 8)->seconds, 3e-6);
  EXPECT_EQ(database.find(bf16, 8)->seconds, 1e-6);
  // And the other way round.
  set(f16, 512, 4e-6);
  EXPECT_EQ(database.find(bf16, 8, 512)->seconds, 4e-6);
  EXPECT_EQ(database.tokenBounds(bf16), (std::vector<int64_t>{128, 512}));
  // Each has its own place in the file.
  TuningDatabase read = unwrap(TuningDatabase::parse(sources.add("both.toml", database.str())));
  EXPECT_EQ(read.size(), 6u);
}

TEST(TuningDatabase, RefusesWhatIsNone) {
  const std::tuple<const char *, const char *, const char *> cases[] = {
      {"sm_80", "sm_1", ":2:10: error: unknown target 'sm_1'"},
      {"kernel = \"layernorm\"", "kernel = \"layernorms\"",
       ":8:10: error: kernel: expected the name of a kernel family"},
      {"us = 1.50", "us = \"fast\"", ":10:6: error: us: expected a number, got \"fast\""},
      {"rows = 8", "rows = 8\nrow = 8", ":8:1: error: choice: unknown key 'row'"},
      {"rows = 8", "rows = 8\ncall = 8", ":8:8: error: call: expected a string, got 8"},
      {"rows = 8\n", "", ":5:1: error: choice: missing key 'rows'"},
      {"threads = 128", "threads = [1]", "error: threads: expected an integer, true or false"},
      {"softmax(", "layernorm(", "error: expected each problem once"},
      {"[[choice]]", "[[choice]", ":5:"},
  };
  for (auto [from, to, message] : cases) {
    SourceManager sources;
    std::string got = messageOf(parse(sources, text, from, to));
    EXPECT_NE(got.find(message), std::string::npos) << got;
  }
}

/// The entries that choose-tiles has taken for a model of two layers.
void addTaken(const TuningDatabase &database, StringRef size, int64_t batch,
              std::set<std::tuple<std::string, int64_t, int64_t>> &taken) {
  SourceManager sources;
  CompileOptions options;
  options.pipeline.target = database.target;
  options.pipeline.dtype = "bf16";
  options.build.layers = 2;
  options.build.maxBatch = batch;
  const std::string model = sourcePath(("graphs/gpt2-" + size + ".toml").str());
  auto module = unwrap(compileToStage(model, Stage::Plan, options, sources));
  for (const auto &function : module->functions)
    for (const auto &op : function->body.ops()) {
      if (op->has(Trait::Terminator))
        continue;
      auto add = [&](int64_t rows, int64_t tokens, const KernelChoice &choice) {
        const TunedChoice *entry = database.find(problemName(*op), rows, tokens);
        if (entry && entry->choice == choice)
          taken.insert({entry->problem, entry->rows, entry->tokens});
      };
      for (const KernelVariant &variant : variantsOf(*op)) {
        add(variant.rows, variant.tokens, variant.choice);
        add(variant.rows, 0, variant.choice);
      }
      for (const ChoiceBound &bound : choiceBounds(*op, *choiceOf(*op).family, options.pipeline.batchInvariant))
        add(bound.rows, bound.tokens, choiceFor(*op, bound.rows, bound.tokens));
    }
}

/// An entry that a change of templates or of passes has made useless would be passed over without a word.
TEST(TuningDatabase, EntriesThatComeWithTheProgramAreTaken) {
  const TuningDatabase *database = shippedTuning("sm_90a");
  ASSERT_TRUE(database);
  EXPECT_FALSE(shippedTuning("sm_80"));
  std::set<std::tuple<std::string, int64_t, int64_t>> taken;
  for (StringRef size : {"124m", "355m", "774m", "1558m"})
    for (int64_t batch : {1, 8, 64})
      addTaken(*database, size, batch, taken);
  for (const TunedChoice &entry : database->entries())
    EXPECT_TRUE(taken.count({entry.problem, entry.rows, entry.tokens}))
        << entry.problem << ", " << entry.rows << " rows, " << entry.tokens << " tokens";
}

} // namespace
} // namespace kiln
