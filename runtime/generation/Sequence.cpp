#include "runtime/generation/Sequence.h"

namespace kiln {

Sequence::Sequence(const LanguageModel &model, const Tokenizer *tokenizer, const GenerationRequest &request,
                   size_t index)
    : index(index), request(request), options(request.options), contextLength(model.contextLength()),
      stopStrings(options.stopStrings) {
  if (tokenizer)
    decoder.emplace(*tokenizer);
  result.promptTokens = request.prompt;
  done = isFull();
}

RowStart Sequence::start(size_t row) const {
  std::vector<int32_t> all = result.promptTokens;
  llvm::append_range(all, result.newTokens);
  std::optional<LogitEditor> editor;
  if (!options.logits.isOff())
    editor.emplace(options.logits, result.promptTokens, result.newTokens);
  return {.row = row,
          .tokens = {all.begin() + windowStart, all.end()},
          .sampling = options.sampling,
          .sequence = request.sequence,
          .position = all.size(),
          .remaining = options.maxNewTokens - static_cast<int64_t>(result.newTokens.size()),
          .stopTokens = options.ignoreEos ? std::vector<int32_t>() : options.eosIds,
          .editor = std::move(editor),
          .isSameText = !result.newTokens.empty()};
}

bool Sequence::slide() {
  if (done || length() - windowStart <= contextLength)
    return false;
  int64_t keep = options.slideKeep > 0 ? options.slideKeep : std::max<int64_t>(contextLength / 2, 1);
  windowStart = length() - keep;
  return true;
}

void Sequence::cancel() {
  done = true;
  result.finishReason = FinishReason::Cancelled;
}

Expected<std::string> Sequence::addText(int32_t token) {
  if (!decoder)
    return std::string();
  Expected<std::string> text = decoder->push(token);
  return text ? stopStrings.push(*text) : std::move(text);
}

/// The text that was held back because it could have been part of a stop string or character.
std::string Sequence::finishText() {
  std::string text = decoder ? stopStrings.push(decoder->finish()) : "";
  return text + stopStrings.finish();
}

/// Whether the sequence has reached its maximum length.
bool Sequence::isFull() const {
  return static_cast<int64_t>(result.newTokens.size()) >= options.maxNewTokens ||
         (options.overflow == OverflowPolicy::Stop && length() >= contextLength);
}

Expected<std::string> Sequence::add(int32_t token) {
  result.newTokens.push_back(token);
  bool isEos = !options.ignoreEos && llvm::is_contained(options.eosIds, token);
  std::string text;
  if (!isEos) {
    Expected<std::string> added = addText(token);
    if (!added)
      return added;
    text = std::move(*added);
  }
  done = isEos || stopStrings.isStopped() || isFull();
  if (done)
    text += finishText();
  if (isEos)
    result.finishReason = FinishReason::Eos;
  else if (stopStrings.isStopped())
    result.finishReason = FinishReason::Stop;
  result.text += text;
  return text;
}

} // namespace kiln
