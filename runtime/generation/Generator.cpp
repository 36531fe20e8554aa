#include "runtime/generation/Generator.h"

#include "runtime/generation/Job.h"
#include "support/Diagnostic.h"
#include "support/process/Parallel.h"

namespace kiln {

std::optional<OverflowPolicy> parseOverflowPolicy(StringRef name) {
  if (name == "error")
    return OverflowPolicy::Error;
  if (name == "stop")
    return OverflowPolicy::Stop;
  if (name == "slide")
    return OverflowPolicy::Slide;
  return std::nullopt;
}

StringRef finishReasonName(FinishReason reason) {
  static constexpr StringRef names[] = {"length", "stop", "eos", "cancelled"};
  return names[static_cast<int>(reason)];
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

Error checkSequenceOptions(const SequenceOptions &options, int64_t vocabulary, int64_t context, bool hasTokenizer) {
  if (Error error = checkSamplingParams(options.sampling))
    return error;
  if (options.maxNewTokens < 0)
    return makeError("--max-new-tokens: expected 0 or more, got " + Twine(options.maxNewTokens));
  if (options.slideKeep < 0 || options.slideKeep > context)
    return makeError("slideKeep: expected 0 (half the context) or up to the context of " + Twine(context) +
                     " tokens, got " + Twine(options.slideKeep));
  if (!options.logits.bias.empty() &&
      (options.logits.bias.begin()->first < 0 || options.logits.bias.rbegin()->first >= vocabulary))
    return makeError("--logit-bias: expected token ids in 0.." + Twine(vocabulary - 1) + ", got " +
                     Twine(options.logits.bias.begin()->first < 0 ? options.logits.bias.begin()->first
                                                                  : options.logits.bias.rbegin()->first));
  if (options.echo && !options.logProbabilities)
    return makeError("--echo: expected --logprobs, of the prompt's tokens, got none");
  if (llvm::is_contained(options.stopStrings, ""))
    return makeError("--stop: expected some text, got none");
  if (!options.stopStrings.empty() && !hasTokenizer)
    return makeError("--stop: expected a tokenizer to compare text with, got none");
  return Error::success();
}

std::string promptProblem(ArrayRef<int32_t> prompt, const SequenceOptions &options, int64_t vocabulary,
                          int64_t context) {
  auto length = static_cast<int64_t>(prompt.size());
  if (prompt.empty())
    return "expected at least one token, got none";
  for (int32_t id : prompt)
    if (id < 0 || id >= vocabulary)
      return ("expected token ids in 0.." + Twine(vocabulary - 1) + ", got " + Twine(id)).str();
  if (length > context)
    return ("expected at most the context of " + Twine(context) + " tokens, got " + Twine(length) +
            "; shorten the prompt")
        .str();
  if (options.overflow == OverflowPolicy::Error && options.maxNewTokens > context - length)
    return ("expected prompt and new tokens to fit in the context of " + Twine(context) + ", got " + Twine(length) +
            " and " + Twine(options.maxNewTokens) + "; lower --max-new-tokens to " + Twine(context - length) +
            ", shorten the prompt, or choose --overflow stop or slide")
        .str();
  return "";
}

static Error checkRequests(const LanguageModel &model, const Tokenizer *tokenizer,
                           ArrayRef<GenerationRequest> requests) {
  for (const GenerationRequest &request : requests)
    if (Error error =
            checkSequenceOptions(request.options, model.vocabSize(), model.contextLength(), tokenizer != nullptr))
      return error;
  for (const auto &[i, request] : llvm::enumerate(requests))
    if (std::string wrong = promptProblem(request.prompt, request.options, model.vocabSize(), model.contextLength());
        !wrong.empty())
      return makeError("prompt " + Twine(i + 1) + ": " + wrong);
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Jobs
//===----------------------------------------------------------------------===//

/// Runs one job on each model. Error: those of the jobs.
static Error runJobs(ArrayRef<LanguageModel *> models, RequestQueue &queue, function_ref<Error(LanguageModel &)> run) {
  return runThreads(models.size(), [&](size_t i) {
    Error error = models[i]->makeCurrent();
    if (!error)
      error = run(*models[i]);
    if (error)
      queue.stop();
    return error;
  });
}

Error generateEach(ArrayRef<LanguageModel *> models, const Tokenizer *tokenizer, ArrayRef<GenerationRequest> requests,
                   size_t rows, const JobOptions &options,
                   function_ref<Error(size_t request, Generation result)> onFinished) {
  assert((models.size() == 1 || !options.draft) && "a draft guesses for one model");
  if (Error error = checkRequests(*models.front(), tokenizer, requests))
    return error;
  rows = std::min<size_t>(rows, llvm::divideCeil(requests.size(), models.size()));
  // A device that chooses tokens keeps the logits to itself.
  bool needsLogits = options.keepLogits || llvm::any_of(requests, [](const GenerationRequest &request) {
                       return request.options.logProbabilities.has_value();
                     });
  bool editsLogits =
      llvm::any_of(requests, [](const GenerationRequest &request) { return !request.options.logits.isOff(); });
  RequestQueue queue(requests, rows * models.size(), options, onFinished);
  return runJobs(models, queue, [&](LanguageModel &model) {
    std::unique_ptr<TokenStream> stream =
        model.openStream({rows, needsLogits, editsLogits, options.draft, options.draftLength});
    return Job(model, tokenizer, queue, options, *stream, rows).run();
  });
}

Error generateEach(LanguageModel &model, const Tokenizer *tokenizer, ArrayRef<GenerationRequest> requests, size_t rows,
                   const JobOptions &options, function_ref<Error(size_t request, Generation result)> onFinished) {
  return generateEach(ArrayRef<LanguageModel *>(&model), tokenizer, requests, rows, options, onFinished);
}

Expected<std::vector<Generation>> generate(LanguageModel &model, const Tokenizer *tokenizer,
                                           ArrayRef<std::vector<int32_t>> prompts, const GenerateOptions &options) {
  return generate(ArrayRef<LanguageModel *>(&model), tokenizer, prompts, options);
}

Expected<std::vector<Generation>> generate(ArrayRef<LanguageModel *> models, const Tokenizer *tokenizer,
                                           ArrayRef<std::vector<int32_t>> prompts, const GenerateOptions &options) {
  std::vector<GenerationRequest> requests;
  for (const auto &[i, prompt] : llvm::enumerate(prompts))
    requests.push_back({prompt, i, options});
  std::vector<Generation> results(prompts.size());
  auto keep = [&](size_t request, Generation result) {
    results[request] = std::move(result);
    return Error::success();
  };
  auto rows = static_cast<size_t>(models.front()->maxBatch());
  if (Error error = generateEach(models, tokenizer, requests, rows, options, keep))
    return error;
  return results;
}

} // namespace kiln
