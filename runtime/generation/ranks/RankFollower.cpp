#include "runtime/generation/ranks/RankFollower.h"

#include "runtime/generation/ranks/RankCalls.h"

namespace kiln {

namespace {

/// One rank's model, and what it has open.
class RankFollower {
public:
  RankFollower(Executor &executor, RankGroup &group) : model(executor), group(group) {}

  Error make(const RankMessage &message);

private:
  Error call(RankCall call, RankMessageReader &arguments);
  Error next(RankMessageReader &arguments);

  PlanModel model;
  RankGroup &group;
  std::unique_ptr<TokenStream> stream;
};

Error RankFollower::next(RankMessageReader &arguments) {
  const BitVector active = getRows(arguments);
  std::vector<int32_t> tokens(active.size(), idleRow);
  if (Error error = stream->next(active, tokens))
    return error;
  RankMessageWriter writer;
  writer.putAll(ArrayRef(tokens));
  return group.send({RankMessageKind::Reply, std::move(writer.bytes)});
}

Error RankFollower::call(RankCall call, RankMessageReader &arguments) {
  // Results are the first rank's: it has the same bits.
  std::vector<std::vector<float>> logits;
  switch (call) {
  case RankCall::Prefill: {
    std::vector<std::vector<int32_t>> prompts = getTokens(arguments);
    logits.resize(prompts.size());
    return model.prefill(prompts, logits);
  }
  case RankCall::Decode: {
    std::vector<int32_t> tokens = arguments.getAll<int32_t>();
    logits.resize(tokens.size());
    return model.decode(tokens, logits);
  }
  case RankCall::Verify: {
    std::vector<std::vector<int32_t>> tokens = getTokens(arguments);
    std::vector<std::vector<std::vector<float>>> all(tokens.size());
    return model.verify(tokens, all);
  }
  case RankCall::Truncate:
    model.truncate(arguments.getAll<int64_t>());
    return Error::success();
  case RankCall::OpenStream: {
    StreamOptions options;
    options.rows = arguments.get<uint64_t>();
    stream = model.openStream(options);
    return Error::success();
  }
  case RankCall::Start:
    return stream->start(getStarts(arguments));
  case RankCall::Next:
    return next(arguments);
  case RankCall::Score:
    return model.score(getWindows(arguments).windows()).takeError();
  }
  return makeError("rank 0 has sent a call that there is not");
}

Error RankFollower::make(const RankMessage &message) {
  RankMessageReader reader(message.bytes);
  const auto name = reader.get<RankCall>();
  const bool needsStream = name == RankCall::Start || name == RankCall::Next;
  if (message.kind != RankMessageKind::Call || (needsStream && !stream))
    return makeError("rank 0 has sent a message that does not belong here");
  return call(name, reader);
}

} // namespace

Error followCalls(Executor &executor, RankGroup &group) {
  RankFollower follower(executor, group);
  for (;;) {
    Expected<RankMessage> message = group.receive();
    if (!message)
      return message.takeError();
    if (message->kind == RankMessageKind::End)
      return Error::success();
    if (Error error = follower.make(*message))
      return error;
  }
}

} // namespace kiln
