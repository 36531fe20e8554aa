#include "tools/kiln/Commands.h"
#include "tools/kiln/ProgressLine.h"
#include "tools/session/Engine.h"

#include "formats/LlmcDebugState.h"
#include "support/Diagnostic.h"
#include "support/process/Process.h"
#include "support/text/Json.h"

#include <cmath>

namespace kiln {

namespace {

/// The largest difference of a logit, and where it is.
struct LogitDifference {
  double value = 0;
  int64_t sequence = 0, token = 0, id = 0;
};

/// Compares a model with what PyTorch computed.
class DebugStateCheck {
public:
  DebugStateCheck(Engine &engine, const LlmcDebugState &state) : engine(engine), state(state) {}

  /// Feeds the sequences token by token, and once more as prompts: that checks the cache and the prompt's pass.
  Error compareLogits();
  /// The mean loss of all tokens.
  Expected<double> loss();

  LogitDifference largest;

private:
  void compare(ArrayRef<std::vector<float>> rows, int64_t token);

  Engine &engine;
  const LlmcDebugState &state;
};

void DebugStateCheck::compare(ArrayRef<std::vector<float>> rows, int64_t token) {
  for (const auto &[sequence, row] : llvm::enumerate(rows)) {
    std::vector<float> wanted = state.logits(static_cast<int64_t>(sequence), token);
    for (size_t id = 0; id < row.size(); ++id) {
      double difference = std::abs(static_cast<double>(row[id]) - wanted[id]);
      // The first NaN is larger than everything else.
      if (!std::isnan(largest.value) && !(difference <= largest.value))
        largest = {difference, static_cast<int64_t>(sequence), token, static_cast<int64_t>(id)};
    }
  }
}

Error DebugStateCheck::compareLogits() {
  LanguageModel &model = engine.model();
  std::vector<std::vector<int32_t>> first, whole;
  for (int64_t i = 0; i < state.batch(); ++i) {
    first.push_back({state.inputs(i).front()});
    whole.push_back(state.inputs(i).vec());
  }
  std::vector<std::vector<float>> rows(state.batch());
  if (Error error = model.prefill(first, rows))
    return error;
  compare(rows, 0);
  std::vector<int32_t> next(state.batch());
  for (int64_t token = 1; token < state.length(); ++token) {
    for (int64_t i = 0; i < state.batch(); ++i)
      next[i] = state.inputs(i)[token];
    if (Error error = model.decode(next, rows))
      return error;
    compare(rows, token);
  }
  if (Error error = model.prefill(whole, rows))
    return error;
  compare(rows, state.length() - 1);
  return Error::success();
}

Expected<double> DebugStateCheck::loss() {
  std::vector<ScoreWindow> windows;
  for (int64_t i = 0; i < state.batch(); ++i)
    windows.push_back({state.inputs(i), state.targets(i), 0});
  auto scores = engine.scorer().score(windows);
  if (!scores)
    return scores.takeError();
  double sum = 0;
  for (const std::vector<TokenScore> &window : *scores)
    for (const TokenScore &score : window)
      sum += score.nll;
  return sum / static_cast<double>(state.batch() * state.length());
}

void print(const CheckCommand &command, const LlmcDebugState &state, const LogitDifference &largest, double loss) {
  if (command.json) {
    standardOutput() << jsonText(json::Object{{"sequences", state.batch()},
                                              {"tokens", state.length()},
                                              {"logit_difference", jsonQuantity(largest.value)},
                                              {"loss", jsonQuantity(loss)},
                                              {"expected_loss", jsonFloat(state.loss())}})
                     << '\n';
    return;
  }
  standardOutput() << formatv("logits  {0} sequences of {1} tokens: largest difference {2:E2}, at sequence {3}, token "
                              "{4}, id {5}\n",
                              state.batch(), state.length(), largest.value, largest.sequence, largest.token, largest.id)
                   << formatv("loss    {0:F6}, expected {1:F6}\n", loss, state.loss());
}

/// Error: a difference above the tolerance.
Error judge(const CheckCommand &command, const LlmcDebugState &state, const LogitDifference &largest, double loss) {
  auto fail = [&](const Twine &what, double got) {
    return makeFileError(command.debugState, what + ": expected a difference of at most " +
                                                 formatv("{0}", command.tolerance).str() + ", got " +
                                                 formatv("{0:E2}", got).str());
  };
  if (!(largest.value <= command.tolerance))
    return fail("logits of sequence " + Twine(largest.sequence) + ", token " + Twine(largest.token), largest.value);
  double difference = std::abs(loss - state.loss());
  return difference <= command.tolerance ? Error::success() : fail("loss", difference);
}

/// Opens the file. Error: as of LlmcDebugState::open; sequences that are longer than the model's context.
Expected<LlmcDebugState> openState(const CheckCommand &command, const ModelSource &source) {
  Expected<LlmcDebugState> state = LlmcDebugState::open(command.debugState, source.model().vocabulary);
  if (state && state->length() > source.model().context)
    return makeFileError(command.debugState, "byte 12: number of tokens: expected at most the model's context of " +
                                                 Twine(source.model().context) + ", got " + Twine(state->length()));
  return state;
}

} // namespace

Error run(const CheckCommand &command) {
  EngineOptions options;
  options.device = resolveDevice(command.device);
  options.entries = {Entry::Prefill, Entry::Decode, Entry::Score};
  Expected<ModelSource> source = openModel({.model = command.model,
                                            .weights = command.weights,
                                            .pipeline = command.pipeline,
                                            .batch = BuildOptions().maxBatch,
                                            .device = options.device,
                                            .reference = referenceUse(options)});
  if (!source)
    return source.takeError();
  Expected<LlmcDebugState> state = openState(command, *source);
  if (!state)
    return state.takeError();
  options.batch = state->batch();
  ProgressLine progress(command.quiet);
  options.onKernelCompiled = [&](size_t done, size_t all, StringRef kernel) { progress.show(done, all, kernel); };
  auto engine = openEngine(*source, options);
  if (!engine)
    return engine.takeError();
  DebugStateCheck check(**engine, *state);
  if (Error error = check.compareLogits())
    return error;
  Expected<double> loss = check.loss();
  if (!loss)
    return loss.takeError();
  progress.finish();
  print(command, *state, check.largest, *loss);
  return judge(command, *state, check.largest, *loss);
}

} // namespace kiln
