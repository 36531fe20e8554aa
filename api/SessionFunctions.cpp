#include "api/Functions.h"
#include "api/Handles.h"
#include "api/ModelChoices.h"

#include "tools/session/UsageError.h"

namespace kiln::api {

//===----------------------------------------------------------------------===//
// Opening and using
//===----------------------------------------------------------------------===//

static Expected<std::unique_ptr<KilnSession>> openedSession(const KilnModel &model, const KilnSessionOptions &options) {
  auto opened = std::make_unique<KilnSession>();
  opened->model = model.opened;
  opened->canScore = options.canScore != 0;
  EngineOptions engine;
  engine.device = model.opened->device;
  engine.batch = model.opened->batch;
  engine.entries = {Entry::Prefill, Entry::Decode};
  if (opened->canScore)
    engine.entries.push_back(Entry::Score);
  engine.onKernelCompiled = progressCallback(options);
  engine.onNote = [&options](StringRef text) {
    if (options.onNote)
      options.onNote(options.user, text.str().c_str());
  };
  if (Error error = openEngine(model.opened->source, engine).moveInto(opened->engine))
    return error;
  return opened;
}

KilnError *openSession(KilnModel *model, const KilnSessionOptions *given, KilnSession **session) noexcept {
  return guarded([&]() -> Error {
    if (Error error = expectGiven(session, "session"))
      return error;
    *session = nullptr;
    if (Error error = expectGiven(model, "model"))
      return error;
    Expected<KilnSessionOptions> options = readOptions(given, KILN_SESSION_OPTIONS, "KILN_SESSION_OPTIONS");
    if (!options)
      return options.takeError();
    auto opened = openedSession(*model, *options);
    if (!opened)
      return opened.takeError();
    *session = opened->release();
    return Error::success();
  });
}

static Error prepareThread(KilnSession &session) {
  Executor *executor = session.engine->executor();
  return executor ? executor->device().makeCurrent() : Error::success();
}

void releaseSession(KilnSession *session) noexcept {
  if (!session)
    return;
  llvm::consumeError(prepareThread(*session)); // what is freed need not belong to the thread's GPU
  delete session;
}

/// Runs a function's work while no other call of the session runs.
template <class Work> static KilnError *guardedUse(KilnSession *session, Work work) noexcept {
  return guarded([&]() -> Error {
    if (Error error = expectGiven(session, "session"))
      return error;
    if (session->isBusy.exchange(true))
      return makeBusy("session: expected no other call of it, got one that still runs; open a session for each thread");
    auto finish = llvm::make_scope_exit([&] { session->isBusy = false; });
    if (Error error = prepareThread(*session))
      return error;
    return work(*session);
  });
}

//===----------------------------------------------------------------------===//
// Step by step
//===----------------------------------------------------------------------===//

/// Checks a prompt as generate() does, whatever follows it.
static Error checkTokens(const KilnSession &session, size_t index, ArrayRef<int32_t> prompt) {
  const LanguageModel &model = session.engine->model();
  SequenceOptions options;
  options.maxNewTokens = 0;
  std::string wrong = promptProblem(prompt, options, model.vocabSize(), model.contextLength());
  return wrong.empty() ? Error::success() : makeError("prompt " + Twine(index + 1) + ": " + wrong);
}

static void forgetRows(KilnSession &session) {
  session.lengths.clear();
  session.logits.clear();
}

KilnError *prefill(KilnSession *given, const KilnTokens *prompts, size_t rows) noexcept {
  return guardedUse(given, [&](KilnSession &session) -> Error {
    auto copies = copyPrompts(prompts, rows);
    if (!copies)
      return copies.takeError();
    if (rows < 1 || rows > static_cast<size_t>(session.model->batch))
      return makeMisuse("rows: expected 1 to the batch of " + Twine(session.model->batch) + ", got " + Twine(rows));
    LanguageModel &model = session.engine->model();
    for (size_t row = 0; row < rows; ++row)
      if (Error error = checkTokens(session, row, (*copies)[row]))
        return error;
    forgetRows(session);
    std::vector<std::vector<float>> logits(rows);
    if (Error error = model.prefill(*copies, logits))
      return error;
    session.logits = std::move(logits);
    for (const std::vector<int32_t> &prompt : *copies)
      session.lengths.push_back(static_cast<int64_t>(prompt.size()));
    return Error::success();
  });
}

/// Error: a number of rows that is not prefill's; an id that the model does not know; a full row.
static Error checkStep(const KilnSession &session, ArrayRef<int32_t> tokens) {
  if (session.lengths.empty())
    return makeMisuse("decode: expected rows of prefill, got none");
  if (tokens.size() != session.lengths.size())
    return makeMisuse("rows: expected the " + Twine(session.lengths.size()) + " of prefill, got " +
                      Twine(tokens.size()));
  for (auto [row, token] : llvm::enumerate(tokens)) {
    if (token == KILN_IDLE_ROW)
      continue;
    if (token < 0 || token >= session.model->info.vocabulary)
      return makeError("row " + Twine(row) + ": expected a token id in 0.." +
                       Twine(session.model->info.vocabulary - 1) + ", or KILN_IDLE_ROW, got " + Twine(token));
    if (session.lengths[row] >= session.model->info.context)
      return makeError("row " + Twine(row) + ": expected fewer tokens than the context of " +
                       Twine(session.model->info.context) + ", got as many; no token fits behind them");
  }
  return Error::success();
}

KilnError *decode(KilnSession *given, const int32_t *tokens, size_t rows) noexcept {
  return guardedUse(given, [&](KilnSession &session) -> Error {
    if (Error error = expectArray(tokens, rows, "tokens"))
      return error;
    if (Error error = checkStep(session, ArrayRef(tokens, rows)))
      return error;
    if (Error error = session.engine->model().decode(ArrayRef(tokens, rows), session.logits)) {
      forgetRows(session);
      return error;
    }
    for (size_t row = 0; row < rows; ++row)
      session.lengths[row] += tokens[row] != KILN_IDLE_ROW;
    return Error::success();
  });
}

/// The logits of a row. Error: there is no such row.
static Expected<ArrayRef<float>> rowOf(const KilnSession &session, size_t row) {
  if (row >= session.logits.size())
    return makeMisuse("row: expected one of the " + Twine(session.logits.size()) + " rows of prefill, got " +
                      Twine(row));
  return ArrayRef(session.logits[row]);
}

KilnError *logits(KilnSession *given, size_t row, const float **out) noexcept {
  return guardedUse(given, [&](KilnSession &session) -> Error {
    if (Error error = expectGiven(out, "logits"))
      return error;
    Expected<ArrayRef<float>> found = rowOf(session, row);
    if (!found)
      return found.takeError();
    *out = found->data();
    return Error::success();
  });
}

KilnError *logProbabilities(KilnSession *given, size_t row, float *out, size_t capacity) noexcept {
  return guardedUse(given, [&](KilnSession &session) -> Error {
    Expected<ArrayRef<float>> found = rowOf(session, row);
    if (!found)
      return found.takeError();
    if (Error error = expectArray(out, capacity, "logProbabilities"))
      return error;
    if (capacity < found->size())
      return makeMisuse("capacity: expected at least " + Twine(found->size()) + ", got " + Twine(capacity));
    logSoftmax(*found, MutableArrayRef(out, found->size()));
    return Error::success();
  });
}

//===----------------------------------------------------------------------===//
// Whole texts
//===----------------------------------------------------------------------===//

KilnError *score(KilnSession *given, const int32_t *tokens, size_t count, double *out) noexcept {
  return guardedUse(given, [&](KilnSession &session) -> Error {
    if (!session.canScore)
      return makeMisuse("score: expected a session that was opened with canScore, got one without");
    if (Error error = expectArray(tokens, count, "tokens"))
      return error;
    if (count < 2)
      return makeError("tokens: expected at least 2, got " + Twine(count));
    if (Error error = expectGiven(out, "logProbabilities"))
      return error;
    ArrayRef<int32_t> all(tokens, count);
    // A window predicts one token behind it.
    for (ArrayRef<int32_t> part : {all.drop_back(), all.drop_front()})
      if (Error error = checkTokens(session, 0, part))
        return error;
    auto scores = session.engine->scorer().score(ScoreWindow{all.drop_back(), all.drop_front()});
    if (!scores)
      return scores.takeError();
    llvm::transform(scores->front(), out, [](const TokenScore &score) { return -score.nll; });
    return Error::success();
  });
}

static Expected<GenerateOptions> readGenerate(const KilnSession &session, const KilnGenerateOptions &given) {
  GenerateOptions options;
  options.maxNewTokens = given.maxNewTokens;
  options.sampling = {
      .temperature = given.temperature, .topK = given.topK, .topP = given.topP, .minP = given.minP, .seed = given.seed};
  if (given.greedy)
    options.sampling = {.greedy = true}; // whatever the others are: they are not used
  options.eosIds = session.model->eosTokens;
  options.ignoreEos = given.ignoreEos != 0;
  if (Error error = copyTexts(given.stopStrings, given.stopStringCount, "stopStrings").moveInto(options.stopStrings))
    return error;
  static constexpr OverflowPolicy policies[] = {OverflowPolicy::Error, OverflowPolicy::Stop, OverflowPolicy::Slide};
  if (given.overflow < 0 || given.overflow >= static_cast<int32_t>(std::size(policies)))
    return makeMisuse("overflow: expected a KilnOverflow, got " + Twine(given.overflow));
  options.overflow = policies[given.overflow];
  options.slideKeep = given.slideKeep;
  options.keepLogits = given.keepLogits != 0;
  const OpenedModel &model = *session.model;
  if (Error error =
          checkSequenceOptions(options, model.info.vocabulary, model.info.context, model.source.tokenizer.has_value()))
    return asUsageError(std::move(error));
  return options;
}

/// Has the caller told of each token, and asked whether to go on. `isStopped` must outlive the options.
static void addCallbacks(const KilnGenerateOptions &given, GenerateOptions &options, bool &isStopped) {
  const KilnCancellation *cancellation = given.cancellation;
  options.isCancelled = [&isStopped, cancellation] { return isStopped || (cancellation && cancellation->isCancelled); };
  if (!given.onToken)
    return;
  options.onToken = [&isStopped, call = given.onToken, user = given.user](size_t sequence, int32_t id, StringRef text) {
    KilnToken token{sizeof(KilnToken), sequence, id, 0, text.data() ? text.data() : "", text.size()};
    isStopped |= call(user, &token) != 0;
  };
}

KilnError *generate(KilnSession *given, const KilnTokens *prompts, size_t count, const KilnGenerateOptions *options,
                    KilnGenerations **generations) noexcept {
  if (generations)
    *generations = nullptr;
  return guardedUse(given, [&](KilnSession &session) -> Error {
    if (Error error = expectGiven(generations, "generations"))
      return error;
    Expected<KilnGenerateOptions> wanted = readOptions(options, KILN_GENERATE_OPTIONS, "KILN_GENERATE_OPTIONS");
    if (!wanted)
      return wanted.takeError();
    Expected<GenerateOptions> generator = readGenerate(session, *wanted);
    if (!generator)
      return generator.takeError();
    auto copies = copyPrompts(prompts, count);
    if (!copies)
      return copies.takeError();
    bool isStopped = false;
    addCallbacks(*wanted, *generator, isStopped);
    forgetRows(session);
    const std::optional<Tokenizer> &tokenizer = session.model->source.tokenizer;
    auto results = kiln::generate(session.engine->model(), tokenizer ? &*tokenizer : nullptr, *copies, *generator);
    if (!results)
      return results.takeError();
    *generations = new KilnGenerations{std::move(*results)};
    return Error::success();
  });
}

} // namespace kiln::api
