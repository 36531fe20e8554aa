#include "runtime/generation/ranks/RankedModel.h"

namespace kiln {

namespace {

/// The same stream on all ranks.
class RankedTokenStream : public TokenStream {
public:
  RankedTokenStream(RankedModel &model, std::vector<std::unique_ptr<TokenStream>> streams)
      : model(model), streams(std::move(streams)), chosen(this->streams.size()) {}

  Error start(ArrayRef<RowStart> starts) override {
    return model.run([&](size_t rank) { return streams[rank]->start(starts); });
  }
  Error next(const BitVector &active, MutableArrayRef<int32_t> tokens) override;
  ArrayRef<float> logits(size_t row) const override { return streams.front()->logits(row); }

private:
  RankedModel &model;
  std::vector<std::unique_ptr<TokenStream>> streams;
  std::vector<std::vector<int32_t>> chosen; ///< by each rank
};

Error RankedTokenStream::next(const BitVector &active, MutableArrayRef<int32_t> tokens) {
  auto nextOf = [&](size_t rank) {
    chosen[rank].resize(tokens.size());
    return streams[rank]->next(active, chosen[rank]);
  };
  if (Error error = model.run(nextOf))
    return error;
  for (size_t rank = 1; rank < chosen.size(); ++rank)
    if (chosen[rank] != chosen.front())
      return makeError("ranks 0 and " + Twine(rank) + " chose different tokens");
  llvm::copy(chosen.front(), tokens.begin());
  return Error::success();
}

} // namespace

RankedModel::RankedModel(ArrayRef<Executor *> executors) {
  for (Executor *executor : executors)
    models.push_back(std::make_unique<PlanModel>(*executor));
}

Expected<std::unique_ptr<RankedModel>> RankedModel::create(ArrayRef<Executor *> executors) {
  std::unique_ptr<RankedModel> model(new RankedModel(executors));
  auto onStart = [raw = model.get()](size_t rank) { return raw->models[rank]->makeCurrent(); };
  auto onFailure = [all = executors.vec()] {
    for (Executor *executor : all)
      executor->stopWaiting();
  };
  if (Error error = RankThreads::start(executors.size(), onStart, onFailure).moveInto(model->threads))
    return error;
  return model;
}

Error RankedModel::prefill(ArrayRef<std::vector<int32_t>> prompts, MutableArrayRef<std::vector<float>> logits) {
  return run([&](size_t rank) {
    std::vector<std::vector<float>> own(rank == 0 ? 0 : logits.size());
    return models[rank]->prefill(prompts, rank == 0 ? logits : MutableArrayRef(own));
  });
}

Error RankedModel::decode(ArrayRef<int32_t> tokens, MutableArrayRef<std::vector<float>> logits) {
  return run([&](size_t rank) {
    std::vector<std::vector<float>> own(rank == 0 ? 0 : logits.size());
    return models[rank]->decode(tokens, rank == 0 ? logits : MutableArrayRef(own));
  });
}

Error RankedModel::verify(ArrayRef<std::vector<int32_t>> tokens,
                          MutableArrayRef<std::vector<std::vector<float>>> logits) {
  return run([&](size_t rank) {
    std::vector<std::vector<std::vector<float>>> own(rank == 0 ? 0 : logits.size());
    return models[rank]->verify(tokens, rank == 0 ? logits : MutableArrayRef(own));
  });
}

void RankedModel::truncate(ArrayRef<int64_t> lengths) {
  for (auto &model : models)
    model->truncate(lengths);
}

std::unique_ptr<TokenStream> RankedModel::openStream(const StreamOptions &options) {
  assert(!options.draft && "guesses are for models on one device");
  std::vector<std::unique_ptr<TokenStream>> streams;
  for (auto &model : models)
    streams.push_back(model->openStream(options));
  return std::make_unique<RankedTokenStream>(*this, std::move(streams));
}

Expected<std::vector<std::vector<TokenScore>>> RankedModel::score(ArrayRef<ScoreWindow> windows) {
  std::vector<std::vector<TokenScore>> scores;
  auto scoreOn = [&](size_t rank) -> Error {
    auto own = models[rank]->score(windows);
    if (!own)
      return own.takeError();
    if (rank == 0)
      scores = std::move(*own);
    return Error::success();
  };
  if (Error error = run(scoreOn))
    return error;
  return scores;
}

} // namespace kiln
