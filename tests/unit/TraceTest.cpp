#include "TestSupport.h"

#include "support/process/Trace.h"

#include <thread>

namespace kiln {
namespace {

/// The events of a trace: of spans ("X"), or of names ("M").
std::vector<json::Object> eventsOf(const Trace &trace, StringRef phase) {
  std::string text;
  raw_string_ostream os(text);
  trace.write(os, "test");
  std::vector<json::Object> events;
  json::Value file = unwrap(json::parse(text));
  for (const json::Value &event : *file.getAsObject()->getArray("traceEvents"))
    if (event.getAsObject()->getString("ph") == phase)
      events.push_back(*event.getAsObject());
  return events;
}

TEST(Trace, HasTimesInMicroseconds) {
  Trace trace;
  Trace::Clock::time_point start = Trace::Clock::now();
  trace.add(TraceLane::Decode, "a \"name\"", start, start + std::chrono::nanoseconds(1234567),
            json::Object{{"sequences", 2}});
  std::vector<json::Object> spans = eventsOf(trace, "X");
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].getString("name"), "a \"name\"");
  EXPECT_EQ(spans[0].getNumber("dur"), 1234.567);
  EXPECT_GE(*spans[0].getNumber("ts"), 0);
  EXPECT_EQ(spans[0].getObject("args")->getInteger("sequences"), 2);
}

TEST(Trace, NamesTheProcessAndTheLanesWithSpans) {
  Trace trace;
  trace.addEnded(TraceLane::Kernels, "k", 0);
  trace.addEnded(TraceLane::Host, "h", 0);
  std::vector<std::string> names;
  for (const json::Object &event : eventsOf(trace, "M"))
    names.push_back(event.getObject("args")->getString("name")->str());
  EXPECT_EQ(names, (std::vector<std::string>{"test", "host", "kernels"}));
}

TEST(Trace, ScopesNestAndNoTraceIsNoSpan) {
  Trace trace;
  int result = traced(&trace, TraceLane::Host, "outer", [&] {
    TraceScope inner(&trace, TraceLane::Host, "inner");
    TraceScope none(nullptr, TraceLane::Host, "none");
    return 7;
  });
  EXPECT_EQ(result, 7);
  std::vector<json::Object> spans = eventsOf(trace, "X");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].getString("name"), "inner");
  EXPECT_EQ(spans[1].getString("name"), "outer");
  EXPECT_LE(*spans[1].getNumber("ts"), *spans[0].getNumber("ts"));
}

TEST(Trace, TakesSpansOfSeveralThreads) {
  Trace trace;
  auto add = [&] {
    for (int i = 0; i < 1000; ++i)
      trace.addEnded(TraceLane::Uploads, "w", 0);
  };
  std::thread other(add);
  add();
  other.join();
  EXPECT_EQ(eventsOf(trace, "X").size(), 2000u);
}

} // namespace
} // namespace kiln
