#include "FakeModel.h"

#include "runtime/generation/RequestQueue.h"

namespace kiln {
namespace {

std::vector<GenerationRequest> requestsOf(ArrayRef<std::pair<size_t, int64_t>> lengths) {
  std::vector<GenerationRequest> requests;
  for (auto [prompt, newTokens] : lengths) {
    GenerationRequest &request = requests.emplace_back();
    request.prompt.assign(prompt, 1);
    request.options.maxNewTokens = newTokens;
  }
  return requests;
}

Error ignore(size_t, Generation) { return Error::success(); }

std::vector<size_t> takeAll(RequestQueue &queue) {
  std::vector<size_t> order;
  while (std::optional<size_t> request = queue.take())
    order.push_back(*request);
  EXPECT_TRUE(queue.isEmpty());
  return order;
}

TEST(RequestQueueTest, AsManyRequestsAsRowsKeepTheirOrder) {
  auto requests = requestsOf({{1, 1}, {1, 9}, {5, 9}});
  JobOptions options;
  RequestQueue queue(requests, 3, options, ignore);
  EXPECT_EQ(takeAll(queue), (std::vector<size_t>{0, 1, 2}));
}

TEST(RequestQueueTest, TheLongestComeFirstAmongEightRoundsOfRows) {
  auto requests = requestsOf({{1, 1}, {1, 9}, {5, 9}, {9, 2}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 50}, {1, 60}});
  JobOptions options;
  RequestQueue queue(requests, 1, options, ignore);
  EXPECT_EQ(takeAll(queue), (std::vector<size_t>{2, 1, 7, 6, 3, 5, 0, 4, 9, 8}));
}

TEST(RequestQueueTest, AnyNumberOfTokensIsALargeOne) {
  auto requests = requestsOf({{1, 1}, {1, INT64_MAX / 64 + 1}, {2, INT64_MAX}, {1, 3}});
  JobOptions options;
  RequestQueue queue(requests, 1, options, ignore);
  EXPECT_EQ(takeAll(queue), (std::vector<size_t>{2, 1, 3, 0}));
}

TEST(RequestQueueTest, AStoppedQueueHandsOutNothing) {
  auto requests = requestsOf({{1, 1}, {1, 1}});
  JobOptions options;
  RequestQueue queue(requests, 1, options, ignore);
  EXPECT_TRUE(queue.take());
  EXPECT_FALSE(queue.isEmpty());
  EXPECT_FALSE(queue.isStopped());
  queue.stop();
  EXPECT_TRUE(queue.isStopped());
  EXPECT_TRUE(queue.isEmpty());
  EXPECT_FALSE(queue.take());
}

TEST(RequestQueueTest, ACancellationIsSeenByAllJobs) {
  JobOptions options;
  bool wasAsked = false;
  options.isCancelled = [&] { return !std::exchange(wasAsked, true); };
  RequestQueue queue({}, 1, options, ignore);
  EXPECT_TRUE(queue.isCancelled());
  EXPECT_TRUE(queue.isCancelled());
}

TEST(RequestQueueTest, SeveralModelsShareRequests) {
  std::vector<Ids> prompts;
  for (int32_t i = 0; i < 21; ++i)
    prompts.push_back(Ids(static_cast<size_t>(1 + i % 5), i));
  GenerateOptions options;
  options.maxNewTokens = 4;
  std::vector<std::pair<size_t, int32_t>> told;
  options.onToken = [&](size_t sequence, int32_t token, StringRef) { told.emplace_back(sequence, token); };
  FakeModel one, a, b, c;
  auto alone = unwrap(generate(one, nullptr, prompts, options));
  told.clear();
  auto shared = unwrap(generate({&a, &b, &c}, nullptr, prompts, options));
  EXPECT_EQ(told.size(), 4 * prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i)
    EXPECT_EQ(shared[i].newTokens, alone[i].newTokens) << i;
  EXPECT_EQ(a.prefilled.size() + b.prefilled.size() + c.prefilled.size(), prompts.size());
}

} // namespace
} // namespace kiln
