#include "runtime/generation/scoring/ReplicatedScorer.h"

#include "support/Diagnostic.h"
#include "support/Parallel.h"

namespace kiln {

namespace {
/// The windows of one scorer and what it says of them.
struct Part {
  Scorer *scorer;
  ArrayRef<ScoreWindow> windows;
  std::vector<std::vector<TokenScore>> scores = {};
  std::vector<Diagnostic> failure = {};

  void run() {
    if (Error error = scorer->makeCurrent()) {
      failure = takeDiagnostics(std::move(error));
      return;
    }
    if (auto scored = scorer->score(windows))
      scores = std::move(*scored);
    else
      failure = takeDiagnostics(scored.takeError());
  }
};
} // namespace

Expected<std::vector<std::vector<TokenScore>>> ReplicatedScorer::score(ArrayRef<ScoreWindow> windows) {
  std::vector<Part> parts;
  ArrayRef<ScoreWindow> left = windows;
  for (size_t i = 0; i < scorers.size() && !left.empty(); ++i) {
    size_t share = llvm::divideCeil(left.size(), scorers.size() - i);
    parts.push_back({scorers[i], left.take_front(share)});
    left = left.drop_front(share);
  }
  std::vector<std::thread> threads;
  for (Part &part : MutableArrayRef(parts).drop_front(parts.empty() ? 0 : 1)) {
    if (auto thread = startThread([&part] { part.run(); }))
      threads.push_back(std::move(*thread));
    else
      part.run();
  }
  if (!parts.empty())
    parts.front().run();
  for (std::thread &thread : threads)
    thread.join();
  std::vector<std::vector<TokenScore>> all;
  for (Part &part : parts) {
    if (!part.failure.empty())
      return llvm::make_error<DiagnosticError>(std::move(part.failure));
    llvm::move(part.scores, std::back_inserter(all));
  }
  return all;
}

} // namespace kiln
