#include "Bindings.h"

namespace kiln::python {

namespace {

struct CancellationHandle {
  std::shared_ptr<KilnCancellation> handle;
};

/// A generation, copied out of the library.
struct Result {
  std::vector<int32_t> tokens;
  std::string text;
  int32_t finishReason = 0;
  double promptMs = 0;
  std::vector<double> tokenMs;
  std::vector<float> logits, logProbabilities; ///< if they were kept
  size_t vocabulary = 0;
};

/// Copies generation `index`. The error, or NULL.
KilnError *copy(const KilnGenerations *generations, size_t index, bool hasLogits, Result &result) {
  KilnGeneration from = KILN_GENERATION;
  if (KilnError *error = api().generation(generations, index, &from))
    return error;
  result.tokens.assign(from.tokens, from.tokens + from.tokenCount);
  result.text.assign(from.text, from.textLength);
  result.finishReason = from.finishReason;
  result.promptMs = from.promptMs;
  result.tokenMs.assign(from.tokenMs, from.tokenMs + from.tokenCount);
  if (!hasLogits)
    return nullptr;
  for (size_t token = 0; token < from.tokenCount; ++token) {
    const float *row = nullptr;
    if (KilnError *error = api().generationLogits(generations, index, token, &row))
      return error;
    result.logits.insert(result.logits.end(), row, row + result.vocabulary);
  }
  result.logProbabilities.resize(from.tokenCount);
  return api().generationLogProbabilities(generations, index, result.logProbabilities.data(), from.tokenCount);
}

nb::dict toDict(Result &result, bool hasLogits) {
  nb::dict made;
  made["tokens"] = toArray(std::move(result.tokens));
  made["text"] = nb::bytes(result.text.data(), result.text.size());
  made["finish_reason"] = result.finishReason;
  made["prompt_ms"] = result.promptMs;
  made["token_ms"] = toArray(std::move(result.tokenMs));
  if (hasLogits) {
    made["logits"] = toMatrix(std::move(result.logits), result.vocabulary);
    made["log_probabilities"] = toArray(std::move(result.logProbabilities));
  }
  return made;
}

int32_t onToken(void *user, const KilnToken *token) {
  nb::gil_scoped_acquire gil;
  return !static_cast<Callback *>(user)->call(token->sequence, token->id, nb::bytes(token->text, token->textLength));
}

struct Settings {
  int64_t maxNewTokens;
  bool greedy, ignoreEos;
  double temperature;
  int64_t topK;
  double topP, minP;
  uint64_t seed;
  int32_t overflow;
  int64_t slideKeep;
  bool keepLogits;

  KilnGenerateOptions options() const {
    KilnGenerateOptions options = KILN_GENERATE_OPTIONS;
    options.maxNewTokens = maxNewTokens;
    options.greedy = greedy;
    options.ignoreEos = ignoreEos;
    options.temperature = temperature;
    options.topK = topK;
    options.topP = topP;
    options.minP = minP;
    options.seed = seed;
    options.overflow = overflow;
    options.slideKeep = slideKeep;
    options.keepLogits = keepLogits;
    return options;
  }
};

/// Generates without the GIL, and copies the results.
std::vector<Result> run(SessionHandle &self, const std::vector<KilnTokens> &prompts,
                        const KilnGenerateOptions &options) {
  std::vector<Result> results(prompts.size());
  self.use([&](KilnSession *session) {
    KilnGenerations *generations = nullptr;
    KilnError *error = api().generate(session, prompts.data(), prompts.size(), &options, &generations);
    const std::unique_ptr<KilnGenerations, decltype(api().releaseGenerations)> made(generations,
                                                                                    api().releaseGenerations);
    for (size_t i = 0; !error && i < results.size(); ++i) {
      results[i].vocabulary = self.vocabulary;
      error = copy(made.get(), i, options.keepLogits, results[i]);
    }
    return error;
  });
  return results;
}

using Results = nb::typed<nb::list, nb::typed<nb::dict, nb::str, nb::any>>;

Results generate(SessionHandle &self, const std::vector<Ids> &prompts, const Settings &settings,
                 const std::vector<std::string> &stopStrings, nb::object tokenCallback,
                 const CancellationHandle &cancellation) {
  std::vector<KilnTokens> tokens = tokensOf(prompts);
  std::vector<const char *> stops;
  for (const std::string &text : stopStrings)
    stops.push_back(text.c_str());
  KilnGenerateOptions options = settings.options();
  options.stopStrings = stops.data();
  options.stopStringCount = stops.size();
  Callback callback(std::move(tokenCallback));
  if (callback) {
    options.onToken = onToken;
    options.user = &callback;
  }
  options.cancellation = cancellation.handle.get();
  std::vector<Result> results = run(self, tokens, options);
  callback.rethrow();
  Results list;
  for (Result &result : results)
    list.append(toDict(result, settings.keepLogits));
  return list;
}

} // namespace

void bindGenerate(nb::module_ &module, nb::class_<SessionHandle> &session) {
  nb::class_<CancellationHandle>(module, "Cancellation")
      .def("__init__",
           [](CancellationHandle *self) {
             KilnCancellation *made = nullptr;
             check(api().createCancellation(&made));
             new (self) CancellationHandle{{made, api().releaseCancellation}};
           })
      .def("cancel", [](const CancellationHandle &self) { api().cancel(self.handle.get()); });
  nb::class_<Settings>(module, "Settings")
      .def(nb::init<int64_t, bool, bool, double, int64_t, double, double, uint64_t, int32_t, int64_t, bool>(),
           nb::kw_only(), nb::arg("max_new_tokens"), nb::arg("greedy"), nb::arg("ignore_eos"), nb::arg("temperature"),
           nb::arg("top_k"), nb::arg("top_p"), nb::arg("min_p"), nb::arg("seed"), nb::arg("overflow"),
           nb::arg("slide_keep"), nb::arg("keep_logits"));
  session.def("generate", generate, nb::arg("prompts"), nb::arg("settings"), nb::arg("stop"),
              nb::arg("on_token").none(), nb::arg("cancellation"));
}

} // namespace kiln::python
