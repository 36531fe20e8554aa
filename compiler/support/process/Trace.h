//===- Trace.h - spans of time, as a Chrome trace -------------------------===//
//
// What a program did and when, in the JSON that Perfetto (ui.perfetto.dev) and chrome://tracing show: the Trace Event
// Format, complete events ("ph": "X") with times in microseconds.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

#include <chrono>
#include <mutex>

namespace kiln {

/// The lanes of a trace, from top to bottom. Spans of one lane do not overlap, but in the host's lane, where one may
/// lie within another.
enum class TraceLane {
  Host,    ///< what the program works on
  Uploads, ///< weights, each from its packing until its copies are enqueued
  Prompts, ///< evaluation of prompts
  Decode,  ///< steps that give each sequence a token
  Kernels, ///< steps of the plan, by the device's clock
};

/// `host`, `uploads`, `prompts`, `decode`, `kernels`.
StringRef traceLaneName(TraceLane lane);

/// Spans in the order in which they ended. Several threads may add some at once.
class Trace {
public:
  using Clock = std::chrono::steady_clock;

  /// `details` are shown with the span.
  void add(TraceLane lane, StringRef name, Clock::time_point start, Clock::time_point end, json::Object details = {});

  /// Adds a span that ends now.
  void addEnded(TraceLane lane, StringRef name, double seconds, json::Object details = {});

  /// Writes everything that was added, an event a line. `program` names the process.
  void write(raw_ostream &os, StringRef program) const;

private:
  struct Span {
    TraceLane lane;
    std::string name;
    Clock::time_point start, end;
    json::Object details;
  };

  json::Value event(const Span &span) const;

  Clock::time_point begin = Clock::now(); ///< 0 in the file
  mutable std::mutex mutex;
  std::vector<Span> spans; ///< guarded by the mutex
};

/// Adds a span for a scope, or nothing if there is no trace.
class TraceScope {
public:
  /// `trace` may be null, and must outlive the scope.
  TraceScope(Trace *trace, TraceLane lane, StringRef name) : trace(trace), lane(lane) {
    if (trace) {
      this->name = name.str();
      start = Trace::Clock::now();
    }
  }
  TraceScope(const TraceScope &) = delete;
  TraceScope &operator=(const TraceScope &) = delete;
  ~TraceScope() {
    if (trace)
      trace->add(lane, name, start, Trace::Clock::now());
  }

private:
  Trace *trace;
  TraceLane lane;
  std::string name;
  Trace::Clock::time_point start;
};

/// What `work` returns; a span lasts as long as the work.
template <class Work> auto traced(Trace *trace, TraceLane lane, StringRef name, Work work) {
  TraceScope span(trace, lane, name);
  return work();
}

} // namespace kiln
