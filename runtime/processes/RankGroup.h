//===- RankGroup.h - the processes that are the ranks of a model ----------===//
//
// Each rank but the first has a connection to the first. A thread of each process reads what comes, so that the end of
// another process is noticed at once, whatever the others are doing; the first rank tells it to all. A process that
// stops without an end is noticed by its silence.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/processes/RankFailure.h"
#include "runtime/processes/RankPlace.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace kiln {

class RankGroup {
public:
  struct Options {
    /// What must be the same in all processes before they understand each other.
    std::string version;
    std::chrono::milliseconds joinPatience = std::chrono::seconds(4); ///< how long a rank waits for the others to come
    /// Called in another thread when a rank has failed and this process goes on nevertheless: it should end it.
    std::function<void(const RankFailure &)> onOverdue = [](const RankFailure &) {};
  };

  /// Waits until all ranks have come. Error, in all that have come: one of them has not; another version or number of
  /// ranks; two of the same rank.
  static Expected<std::unique_ptr<RankGroup>> join(const RankPlace &place, Options options);
  ~RankGroup();

  int64_t rank() const { return place.rank; }
  int64_t ranks() const { return place.ranks; }
  int64_t localRank() const { return place.localRank; }

  /// Sends to all others, or, if this is not the first rank, to the first. Error: that of a rank that has failed.
  Error send(const RankMessage &message);
  /// The next message of a rank to the first, or, if this is not the first rank, of the first. Error: likewise.
  Expected<RankMessage> receive(int64_t from = 0);
  /// Gives a message to all ranks, and returns those of all, in the order of the ranks, without descriptors of their
  /// own. All make this call at the same place between other messages. Error: likewise.
  Expected<std::vector<RankMessage>> gather(const RankMessage &own);

  /// Called once when a rank has failed, in another thread or at once; what waits for that rank must end. Replaces what
  /// was set before, which is not running any more on return.
  void setOnFailure(std::function<void()> onFailure);

  /// Fails with a message that every rank finds by itself.
  Error fail(const Twine &message);

  /// Ends this rank's part. With an error, the others fail, too, and so does this one: with the error of the rank that
  /// failed first. Without one, the first rank sends End, which the others must have received, and all wait for each
  /// other. Ends it once: later calls return their error.
  Error end(Error error);

private:
  struct Peer {
    int64_t rank;
    RankSocket socket;
    std::mutex sending = {};
    std::deque<RankMessage> received = {};
    unsigned silentTurns = 0; ///< of the watching thread
    bool isClosed = false;
  };

  RankGroup(const RankPlace &place, Options options) : place(place), options(std::move(options)) {}

  // RankJoining.cpp
  Error listenForOthers(StringRef name);
  Expected<int64_t> checkHello(const RankMessage &message) const;
  Error missing() const;
  Error findFirst(StringRef name);
  Error startWatching();

  void watch();
  void readFrom(Peer &peer);
  void beat();
  void note(RankFailure failure, const Peer *from);
  void noteLost(const Peer &peer, const Twine &how, std::optional<int64_t> teller);
  void tell(const RankFailure &failure, const Peer *from);
  void endIfOverdue();
  void awaitCause();
  Peer &peerOf(int64_t rank) { return *peers[rank == 0 ? 0 : static_cast<size_t>(rank - 1)]; }
  Expected<std::vector<RankMessage>> gatherAsFirst(const RankMessage &own);

  RankPlace place;
  Options options;
  std::vector<std::unique_ptr<Peer>> peers; ///< of the first rank all others, in order; of another the first

  std::mutex mutex; ///< guards the members below, and those of peers that are received
  std::condition_variable changed;
  std::optional<RankFailure> failure;
  std::optional<RankClock::time_point> overdue; ///< when this process should have ended
  std::function<void()> onFailure;
  bool isLeaving = false; ///< the others may end
  bool hasEnded = false;
  bool isStopping = false;

  Descriptor wakeUp; ///< an eventfd that ends the watching thread's wait
  std::thread watcher;
};

} // namespace kiln
