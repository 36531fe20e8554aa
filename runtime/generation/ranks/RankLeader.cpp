#include "runtime/generation/ranks/RankLeader.h"

#include "runtime/generation/ranks/RankCalls.h"

namespace kiln {

namespace {

/// Has the other ranks make a call.
Error tell(RankGroup &group, RankCall call, function_ref<void(RankMessageWriter &)> putArguments) {
  RankMessageWriter writer;
  writer.put(call);
  putArguments(writer);
  return group.send({RankMessageKind::Call, std::move(writer.bytes)});
}

/// The same stream on all ranks.
class LeadingTokenStream : public TokenStream {
public:
  LeadingTokenStream(RankGroup &group, std::unique_ptr<TokenStream> own) : group(group), own(std::move(own)) {}

  Error start(ArrayRef<RowStart> starts) override {
    if (Error error = tell(group, RankCall::Start, [&](RankMessageWriter &writer) { putStarts(writer, starts); }))
      return error;
    return own->start(starts);
  }
  Error next(const BitVector &active, MutableArrayRef<int32_t> tokens) override;
  ArrayRef<float> logits(size_t row) const override { return own->logits(row); }

private:
  RankGroup &group;
  std::unique_ptr<TokenStream> own;
};

Error LeadingTokenStream::next(const BitVector &active, MutableArrayRef<int32_t> tokens) {
  if (Error error = tell(group, RankCall::Next, [&](RankMessageWriter &writer) { putRows(writer, active); }))
    return error;
  if (Error error = own->next(active, tokens))
    return error;
  for (int64_t rank = 1; rank < group.ranks(); ++rank) {
    Expected<RankMessage> reply = group.receive(rank);
    if (!reply)
      return reply.takeError();
    RankMessageReader reader(reply->bytes);
    if (ArrayRef(reader.getAll<int32_t>()) != ArrayRef<int32_t>(tokens))
      return group.fail("ranks 0 and " + Twine(rank) + " chose different tokens");
  }
  return Error::success();
}

} // namespace

Error RankLeader::prefill(ArrayRef<std::vector<int32_t>> prompts, MutableArrayRef<std::vector<float>> logits) {
  if (Error error = tell(group, RankCall::Prefill, [&](RankMessageWriter &writer) { putTokens(writer, prompts); }))
    return error;
  return own.prefill(prompts, logits);
}

Error RankLeader::decode(ArrayRef<int32_t> tokens, MutableArrayRef<std::vector<float>> logits) {
  if (Error error = tell(group, RankCall::Decode, [&](RankMessageWriter &writer) { writer.putAll(tokens); }))
    return error;
  return own.decode(tokens, logits);
}

Error RankLeader::verify(ArrayRef<std::vector<int32_t>> tokens,
                         MutableArrayRef<std::vector<std::vector<float>>> logits) {
  if (Error error = tell(group, RankCall::Verify, [&](RankMessageWriter &writer) { putTokens(writer, tokens); }))
    return error;
  return own.verify(tokens, logits);
}

void RankLeader::truncate(ArrayRef<int64_t> lengths) {
  // The next call has the error.
  llvm::consumeError(tell(group, RankCall::Truncate, [&](RankMessageWriter &writer) { writer.putAll(lengths); }));
  own.truncate(lengths);
}

std::unique_ptr<TokenStream> RankLeader::openStream(const StreamOptions &options) {
  assert(!options.draft && "guesses are for models on one device");
  if (!own.choosesOnDevice(options))
    return LanguageModel::openStream(options); // by this model's own calls
  // The next call has the error.
  llvm::consumeError(
      tell(group, RankCall::OpenStream, [&](RankMessageWriter &writer) { writer.put<uint64_t>(options.rows); }));
  return std::make_unique<LeadingTokenStream>(group, own.openStream(options));
}

Expected<std::vector<std::vector<TokenScore>>> RankLeader::score(ArrayRef<ScoreWindow> windows) {
  if (Error error = tell(group, RankCall::Score, [&](RankMessageWriter &writer) { putWindows(writer, windows); }))
    return error;
  return own.score(windows);
}

} // namespace kiln
