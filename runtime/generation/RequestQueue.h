//===- RequestQueue.h - requests that several jobs share ------------------===//
#pragma once

#include "runtime/generation/Generator.h"

#include <mutex>

namespace kiln {

/// Hands out requests to jobs, each with a model and a thread of its own, and takes what comes of them. Whatever the
/// user gave is called by one thread at a time.
class RequestQueue {
public:
  using OnFinished = function_ref<Error(size_t request, Generation result)>;

  /// `rows` are those of all jobs together. If there are more requests than rows, those that take longest are handed
  /// out first among some at a time: sequences of like length end together, so that many prompts start in one call,
  /// at the end all jobs have little left to do, and results still come nearly in order. Everything that is passed must
  /// outlive the queue.
  RequestQueue(ArrayRef<GenerationRequest> requests, size_t rows, const JobOptions &options, OnFinished onFinished);

  const GenerationRequest &operator[](size_t request) const { return requests[request]; }

  /// The next request; none when there are none left.
  std::optional<size_t> take();
  bool isEmpty();

  /// Hands a result to the user. Error: the user's.
  Error deliver(size_t request, Generation result);
  /// Tells the user of a new token, if he wants to know.
  void addToken(size_t request, int32_t token, StringRef text);

  /// Whether the user has ended all sequences.
  bool isCancelled();

  /// After an error of a job: no more requests are handed out, and the other jobs end.
  void stop();
  bool isStopped();

private:
  ArrayRef<GenerationRequest> requests;
  std::vector<size_t> order; ///< of the requests
  const JobOptions &options;
  OnFinished onFinished;

  std::mutex callbacks; ///< held while one of the user's functions runs
  bool wasCancelled = false;

  std::mutex mutex; ///< guards the members below
  size_t next = 0;  ///< the first of `order` that no job has taken
  bool wasStopped = false;
};

} // namespace kiln
