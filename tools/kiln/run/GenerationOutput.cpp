#include "tools/kiln/run/GenerationOutput.h"

#include "runtime/measure/Benchmark.h"
#include "support/process/Process.h"
#include "support/text/Json.h"
#include "support/text/Markdown.h"

#include <numeric>

namespace kiln {

/// Times of the steps after the first token of a sequence.
static std::vector<double> stepTimes(const Generation &generation) {
  if (generation.tokenMs.empty())
    return {};
  return std::vector<double>(generation.tokenMs.begin() + 1, generation.tokenMs.end());
}

static int64_t sumOf(ArrayRef<int64_t> values) { return std::accumulate(values.begin(), values.end(), int64_t(0)); }
static double sum(ArrayRef<double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// Tokens that each pass has given; without guesses, 1. The first token is of the prompt.
static double tokensPerPass(int64_t tokens, int64_t passes) {
  return static_cast<double>(tokens) / static_cast<double>(std::max<int64_t>(1, passes));
}

static json::Object toJson(const SpeculationCounts &counts, size_t newTokens) {
  return json::Object{
      {"passes", counts.passes},
      {"drafted", sumOf(counts.drafted)},
      {"accepted", sumOf(counts.accepted)},
      {"drafted_by_place", json::Array(counts.drafted)},
      {"accepted_by_place", json::Array(counts.accepted)},
      {"tokens_per_pass", jsonQuantity(tokensPerPass(static_cast<int64_t>(newTokens) - 1, counts.passes))}};
}

static json::Object toJson(const TokenLogProbability &of) {
  return json::Object{{"token", of.token}, {"logprob", jsonFloat(of.logProbability)}};
}

static json::Array toJson(ArrayRef<ChosenLogProbabilities> tokens) {
  json::Array all;
  for (const ChosenLogProbabilities &token : tokens) {
    json::Object object = toJson(token.chosen);
    object["top"] = json::Array(
        llvm::map_range(token.top, [](const TokenLogProbability &of) -> json::Value { return toJson(of); }));
    all.push_back(std::move(object));
  }
  return all;
}

json::Object toJson(const Generation &generation) {
  json::Object object{{"prompt_tokens", json::Array(generation.promptTokens)},
                      {"tokens", json::Array(generation.newTokens)},
                      {"text", generation.text},
                      {"finish_reason", finishReasonName(generation.finishReason)}};
  if (!generation.logProbabilities.empty())
    object["logprobs"] = toJson(generation.logProbabilities);
  if (generation.promptLogProbabilities) {
    json::Array prompt = toJson(*generation.promptLogProbabilities);
    prompt.insert(prompt.begin(), nullptr);
    object["prompt_logprobs"] = std::move(prompt);
  }
  return object;
}

json::Object toJson(const Generation &generation, bool withLogits, bool withDraft) {
  json::Object object = toJson(generation);
  if (withLogits) {
    json::Array rows;
    for (const std::vector<float> &row : generation.logits)
      rows.push_back(json::Array(llvm::map_range(row, jsonFloat)));
    object["logits"] = std::move(rows);
  }
  if (withDraft)
    object["speculation"] = toJson(generation.speculation, generation.newTokens.size());
  std::vector<double> steps = stepTimes(generation);
  object["timing"] = json::Object{{"prompt_ms", jsonQuantity(generation.promptMs)},
                                  {"decode_ms", jsonQuantity(sum(steps))},
                                  {"token_ms_min", jsonQuantity(percentileOf(steps, 0))},
                                  {"token_ms_p50", jsonQuantity(percentileOf(steps, 0.5))},
                                  {"token_ms_p90", jsonQuantity(percentileOf(steps, 0.9))},
                                  {"token_ms_p99", jsonQuantity(percentileOf(steps, 0.99))},
                                  {"token_ms_max", jsonQuantity(percentileOf(steps, 1))},
                                  {"token_ms", json::Array(llvm::map_range(steps, jsonQuantity))}};
  return object;
}

/// A token's text as JSON; empty where there is none.
static std::string shownToken(const Tokenizer *tokenizer, int32_t token) {
  if (!tokenizer)
    return "";
  Expected<std::string> text = tokenizer->decode({token});
  if (text)
    return jsonText(json::fixUTF8(*text));
  llvm::consumeError(text.takeError()); // a model may know more ids than its vocabulary
  return "";
}

static std::string shownProbability(const TokenLogProbability &of) {
  return formatv("{0:F4}", of.logProbability).str();
}

static void printRow(const Tokenizer *tokenizer, int32_t token, const ChosenLogProbabilities *of) {
  std::string top;
  for (const TokenLogProbability &one : of ? of->top : std::vector<TokenLogProbability>())
    top += (top.empty() ? "" : ", ") + std::to_string(one.token) + " " + shownToken(tokenizer, one.token) +
           (tokenizer ? " " : "") + shownProbability(one);
  printTableRow(standardOutput(),
                {std::to_string(token), shownToken(tokenizer, token), of ? shownProbability(of->chosen) : "", top});
}

void printLogProbabilities(const Generation &generation, const Tokenizer *tokenizer) {
  printTableRow(standardOutput(), {"token", "text", "logprob", "most probable"});
  standardOutput() << "|---|---|---|---|\n";
  if (generation.promptLogProbabilities)
    for (const auto &[i, token] : llvm::enumerate(generation.promptTokens))
      printRow(tokenizer, token, i > 0 ? &(*generation.promptLogProbabilities)[i - 1] : nullptr);
  for (const ChosenLogProbabilities &of : generation.logProbabilities)
    printRow(tokenizer, of.chosen.token, &of);
}

static void printRate(StringRef what, double ms, size_t tokens) {
  double count = static_cast<double>(std::max<size_t>(1, tokens));
  llvm::errs() << formatv("{0} = {1:F2} ms / {2} tokens ({3:F2} ms per token, {4:F2} tokens per second)\n", what, ms,
                          tokens, ms / count, ms > 0 ? 1000 * count / ms : 0);
}

void printSummary(ArrayRef<Generation> generations) {
  size_t promptTokens = 0, steps = 0;
  std::vector<double> times;
  for (const Generation &generation : generations) {
    promptTokens += generation.promptTokens.size();
    std::vector<double> own = stepTimes(generation);
    steps += own.size();
    // Sequences of one batch step together: the longest one gives the time of the batch.
    if (own.size() > times.size())
      times = std::move(own);
  }
  printRate("prompt eval time", generations.front().promptMs, promptTokens);
  printRate("       eval time", sum(times), steps);
  llvm::errs() << formatv("time to first token = {0:F2} ms, between tokens min {1:F2} p50 {2:F2} p90 {3:F2} p99 {4:F2} "
                          "max {5:F2} ms\n",
                          generations.front().promptMs, percentileOf(times, 0), percentileOf(times, 0.5),
                          percentileOf(times, 0.9), percentileOf(times, 0.99), percentileOf(times, 1));
}

void SpeculationTotals::add(const Generation &generation) {
  counts.add(generation.speculation);
  tokens += std::max<int64_t>(0, static_cast<int64_t>(generation.newTokens.size()) - 1);
}

void SpeculationTotals::print() const {
  llvm::errs() << formatv("speculation = {0} tokens drafted, {1} accepted, {2:F2} tokens a pass\n",
                          sumOf(counts.drafted), sumOf(counts.accepted), tokensPerPass(tokens, counts.passes));
}

} // namespace kiln
