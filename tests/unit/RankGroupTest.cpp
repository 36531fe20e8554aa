// Ranks that find each other, exchange messages and notice each other's end; here they are threads.
#include "TestSupport.h"

#include "runtime/processes/RankGroup.h"
#include "support/process/Parallel.h"

#include <atomic>
#include <sys/mman.h>

namespace kiln {
namespace {

class RankGroupTest : public testing::Test {
protected:
  /// Joins a rank of three and has it do its part; returns the message of its error, or nothing.
  std::string run(int64_t rank, function_ref<Error(RankGroup &)> part) {
    RankPlace place{.rank = rank,
                    .ranks = 3,
                    .localRank = rank,
                    .variable = "RANK",
                    .job = testing::UnitTest::GetInstance()->current_test_info()->name() + std::to_string(getpid())};
    RankGroup::Options options;
    options.version = versions[static_cast<size_t>(rank)];
    options.joinPatience = joinPatience;
    Expected<std::unique_ptr<RankGroup>> group = RankGroup::join(place, std::move(options));
    if (!group)
      return messageOf(group.takeError());
    return messageOf((*group)->end(part(**group)));
  }

  /// Runs all ranks that take part.
  std::array<std::string, 3> runAll(function_ref<Error(RankGroup &)> part, int64_t ranks = 3) {
    std::array<std::string, 3> messages;
    cantFail(runThreads(static_cast<size_t>(ranks), [&](size_t rank) {
      messages[rank] = run(static_cast<int64_t>(rank), part);
      return Error::success();
    }));
    return messages;
  }

  static std::string messageOf(Error error) {
    std::string all;
    for (const Diagnostic &diagnostic : takeDiagnostics(std::move(error)))
      all += diagnostic.message;
    return all;
  }

  std::array<std::string, 3> versions = {"kiln 1", "kiln 1", "kiln 1"};
  std::chrono::seconds joinPatience{60}; // as long as a busy machine may take
};

TEST_F(RankGroupTest, GatherGivesAllPartsInOrderWithDescriptors) {
  auto part = [](RankGroup &group) -> Error {
    RankMessage own{RankMessageKind::Parts, std::string(static_cast<size_t>(group.rank()) * 100000, 'x')};
    own.descriptors.emplace_back(memfd_create("test", MFD_CLOEXEC));
    EXPECT_EQ(ftruncate(own.descriptors[0].number(), 10 + group.rank()), 0);
    Expected<std::vector<RankMessage>> all = group.gather(own);
    if (!all)
      return all.takeError();
    EXPECT_EQ(all->size(), 3U);
    for (const auto &[rank, message] : llvm::enumerate(*all)) {
      EXPECT_EQ(message.bytes.size(), rank * 100000);
      if (static_cast<int64_t>(rank) == group.rank() && group.rank() == 0)
        continue; // it has its own
      EXPECT_EQ(message.descriptors.size(), 1U);
      EXPECT_EQ(lseek(message.descriptors[0].number(), 0, SEEK_END), static_cast<off_t>(10 + rank));
    }
    return group.rank() == 0 ? Error::success() : group.receive().takeError(); // End
  };
  EXPECT_EQ(runAll(part), (std::array<std::string, 3>{}));
}

TEST_F(RankGroupTest, CallsAreAnsweredInOrder) {
  auto part = [](RankGroup &group) -> Error {
    for (int turn = 0; turn < 50; ++turn) {
      const std::string text(static_cast<size_t>(turn) * 1000, 'a');
      if (group.rank() == 0) {
        if (Error error = group.send({RankMessageKind::Call, text}))
          return error;
        for (int64_t rank = 1; rank < 3; ++rank) {
          Expected<RankMessage> reply = group.receive(rank);
          if (!reply)
            return reply.takeError();
          EXPECT_EQ(reply->bytes, text + std::to_string(rank));
        }
        continue;
      }
      Expected<RankMessage> call = group.receive();
      if (!call)
        return call.takeError();
      if (Error error = group.send({RankMessageKind::Reply, call->bytes + std::to_string(group.rank())}))
        return error;
    }
    return group.rank() == 0 ? Error::success() : group.receive().takeError(); // End
  };
  EXPECT_EQ(runAll(part), (std::array<std::string, 3>{}));
}

TEST_F(RankGroupTest, AnotherVersionIsAnErrorOfAll) {
  versions[2] = "kiln 2";
  for (const std::string &message : runAll([](RankGroup &) { return Error::success(); }))
    EXPECT_EQ(message, "rank 2: expected kiln 1, as rank 0 is, got kiln 2");
}

TEST_F(RankGroupTest, AMissingRankIsAnErrorOfAll) {
  joinPatience = std::chrono::seconds(2);
  auto messages = runAll([](RankGroup &) { return Error::success(); }, /*ranks=*/2);
  for (size_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(messages[rank], "rank 2 of 3 has not come within 2.0 seconds (RANK of the environment is 0)");
}

TEST_F(RankGroupTest, AnErrorIsThatOfAll) {
  std::atomic<int> stopped = 0;
  auto part = [&](RankGroup &group) -> Error {
    if (group.rank() == 1)
      return makeError("no memory");
    group.setOnFailure([&] { ++stopped; });
    return group.receive(group.rank() == 0 ? 1 : 0).takeError();
  };
  for (const std::string &message : runAll(part))
    EXPECT_EQ(message, "rank 1: no memory");
  EXPECT_EQ(stopped, 2);
}

TEST_F(RankGroupTest, ARankThatEndsWithoutAWordIsLost) {
  std::array<bool, 3> isLost = {};
  std::array<std::string, 3> messages;
  cantFail(runThreads(3, [&](size_t rank) -> Error {
    RankPlace place{.rank = static_cast<int64_t>(rank),
                    .ranks = 3,
                    .localRank = 0,
                    .variable = "RANK",
                    .job = "lost" + std::to_string(getpid())};
    Expected<std::unique_ptr<RankGroup>> group = RankGroup::join(place, {.version = "kiln"});
    if (!group || rank == 2)
      return group.takeError(); // closes its connection
    Error error = (*group)->end((*group)->receive(rank == 0 ? 2 : 0).takeError());
    isLost[rank] = error.isA<LostRankError>();
    messages[rank] = messageOf(std::move(error));
    return Error::success();
  }));
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(isLost[rank]);
    EXPECT_TRUE(StringRef(messages[rank]).starts_with("rank 2 (process ")) << messages[rank];
  }
}

} // namespace
} // namespace kiln
