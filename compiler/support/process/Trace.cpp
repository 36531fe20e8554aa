#include "support/process/Trace.h"

#include "support/text/Json.h"

namespace kiln {

StringRef traceLaneName(TraceLane lane) {
  static constexpr StringRef names[] = {"host", "uploads", "prompts", "decode", "kernels"};
  return names[static_cast<int>(lane)];
}

void Trace::add(TraceLane lane, StringRef name, Clock::time_point start, Clock::time_point end, json::Object details) {
  std::lock_guard lock(mutex);
  spans.push_back({lane, name.str(), start, end, std::move(details)});
}

void Trace::addEnded(TraceLane lane, StringRef name, double seconds, json::Object details) {
  Clock::time_point end = Clock::now();
  auto duration = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  add(lane, name, end - duration, end, std::move(details));
}

/// The number of a lane's thread in the file; viewers sort by it.
static int64_t threadOf(TraceLane lane) { return static_cast<int64_t>(lane) + 1; }

/// Names a process or a thread of the file.
static json::Value nameEvent(StringRef what, int64_t thread, StringRef name) {
  return json::Object{{"ph", "M"}, {"pid", 1}, {"tid", thread}, {"name", what}, {"args", json::Object{{"name", name}}}};
}

json::Value Trace::event(const Span &span) const {
  auto microseconds = [](Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); };
  return json::Object{{"ph", "X"},
                      {"pid", 1},
                      {"tid", threadOf(span.lane)},
                      {"name", span.name},
                      {"ts", jsonQuantity(microseconds(span.start - begin))},
                      {"dur", jsonQuantity(microseconds(span.end - span.start))},
                      {"args", json::Object(span.details)}};
}

void Trace::write(raw_ostream &os, StringRef program) const {
  std::lock_guard lock(mutex);
  os << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" << jsonText(nameEvent("process_name", 0, program));
  std::set<TraceLane> lanes;
  for (const Span &span : spans)
    lanes.insert(span.lane);
  for (TraceLane lane : lanes)
    os << ",\n" << jsonText(nameEvent("thread_name", threadOf(lane), traceLaneName(lane)));
  for (const Span &span : spans)
    os << ",\n" << jsonText(event(span));
  os << "\n]}\n";
}

} // namespace kiln
