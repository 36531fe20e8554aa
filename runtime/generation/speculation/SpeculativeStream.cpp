#include "runtime/generation/speculation/SpeculativeStream.h"

namespace kiln {

Error SpeculativeStream::start(ArrayRef<RowStart> starts) {
  std::vector<std::vector<int32_t>> prompts(rows.size());
  std::vector<std::vector<float>> logits(rows.size());
  for (const RowStart &start : starts)
    prompts[start.row] = start.tokens;
  if (Error error = model.prefill(prompts, logits))
    return error;
  for (const RowStart &start : starts) {
    Row &row = rows[start.row];
    if (!start.isSameText) {
      row.pace = DraftPace(length);
      row.counts = {};
    }
    row.text = start.tokens;
    row.sampling = start.sampling;
    row.editor = start.editor;
    row.sequence = start.sequence;
    row.position = start.position;
    row.remaining = start.remaining;
    row.stopTokens = start.stopTokens;
    row.ready.clear();
    if (Error error = choose(start.row, std::move(logits[start.row])))
      return error;
  }
  return Error::success();
}

/// Chooses the row's next token.
Error SpeculativeStream::choose(size_t index, std::vector<float> logits) {
  Row &row = rows[index];
  sampler.setParams(row.sampling);
  Expected<int32_t> token = sampler.choose(row.editor ? row.editor->edit(logits) : logits, row.sequence, row.position);
  if (!token)
    return token.takeError();
  if (row.editor)
    row.editor->add(*token);
  row.text.push_back(*token);
  ++row.position;
  row.remaining = llvm::is_contained(row.stopTokens, *token) ? 0 : row.remaining - 1;
  row.ready.push_back({*token, options.keepLogits ? std::move(logits) : std::vector<float>()});
  return Error::success();
}

/// Whether a pass may take the row: its last token fits into the context, and has a successor. Rows with many accepted
/// guesses wait for the others.
bool SpeculativeStream::canGoOn(const Row &row) const {
  return row.remaining > 0 && static_cast<int64_t>(row.text.size()) <= model.contextLength() &&
         static_cast<int64_t>(row.ready.size()) <= length.most;
}

Error SpeculativeStream::guess(const BitVector &active, Tokens &guesses) {
  std::vector<GuessRequest> requests(rows.size());
  for (unsigned index : active.set_bits()) {
    const Row &row = rows[index];
    // A token behind all guesses is chosen, too; and guesses must fit into the context.
    int64_t room = model.contextLength() - static_cast<int64_t>(row.text.size());
    int64_t count = std::min({row.pace.count(), room, row.remaining - 1});
    if (canGoOn(row) && count > 0)
      requests[index] = {row.text, row.sequence, row.position, count};
  }
  bool isAny = llvm::any_of(requests, [](const GuessRequest &request) { return request.count > 0; });
  return isAny ? draft.guess(requests, guesses) : Error::success();
}

/// Chooses tokens from a row's logits for as long as the guesses before them are right.
Error SpeculativeStream::accept(size_t index, ArrayRef<int32_t> guesses, MutableArrayRef<std::vector<float>> logits) {
  Row &row = rows[index];
  size_t accepted = 0;
  for (;; ++accepted) {
    if (Error error = choose(index, std::move(logits[accepted])))
      return error;
    if (row.remaining == 0 || accepted == guesses.size() || row.text.back() != guesses[accepted])
      break;
  }
  if (accepted < guesses.size() && row.text.back() == guesses[accepted])
    ++accepted; // the last token, behind which nothing follows
  row.pace.note(static_cast<int64_t>(guesses.size()), static_cast<int64_t>(accepted));
  row.counts.add(guesses.size(), accepted);
  return Error::success();
}

Error SpeculativeStream::pass(const BitVector &active) {
  Tokens guesses(rows.size()), tokens(rows.size());
  if (Error error = guess(active, guesses))
    return error;
  for (unsigned row : active.set_bits())
    if (canGoOn(rows[row])) {
      tokens[row].push_back(rows[row].text.back());
      llvm::append_range(tokens[row], guesses[row]);
    }
  std::vector<std::vector<std::vector<float>>> logits(rows.size());
  if (Error error = model.verify(tokens, logits))
    return error;
  std::vector<int64_t> lengths(rows.size(), -1);
  for (size_t row = 0; row < rows.size(); ++row) {
    if (tokens[row].empty())
      continue;
    if (Error error = accept(row, guesses[row], logits[row]))
      return error;
    lengths[row] = static_cast<int64_t>(rows[row].text.size()) - 1;
  }
  model.truncate(lengths);
  return Error::success();
}

Error SpeculativeStream::next(const BitVector &active, MutableArrayRef<int32_t> tokens) {
  auto isWaiting = [&](unsigned row) { return rows[row].ready.empty(); };
  if (llvm::any_of(active.set_bits(), isWaiting))
    if (Error error = pass(active))
      return error;
  std::fill(tokens.begin(), tokens.end(), idleRow);
  for (unsigned index : active.set_bits()) {
    Row &row = rows[index];
    assert(!row.ready.empty() && "a row is active behind its end");
    tokens[index] = row.ready.front().token;
    row.logits = std::move(row.ready.front().logits);
    row.ready.pop_front();
  }
  return Error::success();
}

} // namespace kiln
