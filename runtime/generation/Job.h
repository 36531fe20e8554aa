//===- Job.h - sequences that run side by side on a model -----------------===//
#pragma once

#include "runtime/generation/RequestQueue.h"
#include "runtime/generation/Sequence.h"

namespace kiln {

/// Runs sequences side by side on one model, until those that the queue hands out have ended.
class Job {
public:
  /// What is passed must outlive the job. `rows` is the number of sequences side by side, as the stream has it.
  Job(LanguageModel &model, const Tokenizer *tokenizer, RequestQueue &requests, const JobOptions &options,
      TokenStream &stream, size_t rows)
      : model(model), tokenizer(tokenizer), requests(requests), options(options), stream(stream), rows(rows),
        active(rows) {}

  /// Error: those of the model and of delivering results. If another job has failed, ends without one.
  Error run();

private:
  using Clock = Trace::Clock;

  double endSpan(TraceLane lane, StringRef name, Clock::time_point start, const BitVector &about) const;
  Error fillRow(size_t row);
  Error echoPrompts(const BitVector &filled);
  Error startRows();
  Error slideRows();
  Error step(bool isFirst);
  Error addToken(size_t row, int32_t token, double ms);
  void finish(size_t row);
  Error deliver();
  Error cancel();

  LanguageModel &model;
  const Tokenizer *tokenizer;
  RequestQueue &requests;
  const JobOptions &options;
  TokenStream &stream;
  std::vector<std::optional<Sequence>> rows;
  BitVector active;                                    ///< the rows that have a sequence
  std::vector<std::pair<size_t, Generation>> finished; ///< not handed out yet, by request
};

} // namespace kiln
