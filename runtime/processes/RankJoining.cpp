// How the processes of a group find each other.
#include "runtime/processes/RankGroup.h"

#include "support/files/File.h"
#include "support/process/Parallel.h"

#include <sys/eventfd.h>

namespace kiln {

/// The name at which the first rank is found: no other user's, and no other job's.
static std::string nameOf(const RankPlace &place) {
  return "kiln-" + std::to_string(geteuid()) + "-" + sha256Hex(place.job).substr(0, 32);
}

static std::string seconds(std::chrono::milliseconds time) {
  return formatv("{0:F1} seconds", static_cast<double>(time.count()) * 1e-3).str();
}

Expected<std::unique_ptr<RankGroup>> RankGroup::join(const RankPlace &place, Options options) {
  std::unique_ptr<RankGroup> group(new RankGroup(place, std::move(options)));
  const std::string name = nameOf(place);
  if (Error error = place.rank == 0 ? group->listenForOthers(name) : group->findFirst(name))
    return error;
  if (Error error = group->startWatching())
    return error;
  return group;
}

/// The rank that has sent a greeting. Error: it does not belong here.
Expected<int64_t> RankGroup::checkHello(const RankMessage &message) const {
  RankMessageReader reader(message.bytes);
  const std::string version = reader.getText();
  const auto rank = reader.get<int64_t>(), ranks = reader.get<int64_t>();
  if (message.kind != RankMessageKind::Hello)
    return makeError("expected another rank of kiln, got another program");
  if (version != options.version)
    return makeError("rank " + Twine(rank) + ": expected " + options.version + ", as rank 0 is, got " + version);
  if (!reader.isWhole() || ranks != place.ranks)
    return makeError("rank " + Twine(rank) + ": expected to be one of " + Twine(place.ranks) +
                     " ranks, as rank 0 is, got " + Twine(ranks));
  if (rank < 1 || rank >= ranks || peers[static_cast<size_t>(rank - 1)])
    return makeError("rank " + Twine(rank) + ": expected one process of it, got another one");
  return rank;
}

/// The greeting of the next process that connects, and its connection; nothing if there is none until the deadline.
static Expected<std::optional<std::pair<RankSocket, RankMessage>>> acceptHello(const RankListener &listener,
                                                                               RankClock::time_point deadline) {
  for (;;) {
    Expected<std::optional<RankSocket>> socket = listener.accept(deadline);
    if (!socket)
      return socket.takeError();
    if (!*socket)
      return std::nullopt;
    Expected<std::optional<RankMessage>> hello =
        (*socket)->await(deadline) ? (*socket)->receive() : std::optional<RankMessage>();
    if (!hello)
      return hello.takeError();
    if (*hello) // else it has ended before it said which rank it is
      return std::pair(std::move(**socket), std::move(**hello));
  }
}

Error RankGroup::missing() const {
  auto absent = llvm::find_if(peers, [](const auto &peer) { return !peer; });
  return makeError("rank " + Twine(absent - peers.begin() + 1) + " of " + Twine(place.ranks) + " has not come within " +
                   seconds(options.joinPatience) + " (" + place.variable + " of the environment is " +
                   Twine(place.rank) + ")");
}

/// The first rank: waits for the others, and tells them whether all belong together.
Error RankGroup::listenForOthers(StringRef name) {
  const RankClock::time_point deadline = RankClock::now() + options.joinPatience;
  Expected<RankListener> listener = RankListener::create(name, deadline);
  if (!listener)
    return listener.takeError();
  peers.resize(static_cast<size_t>(place.ranks - 1));
  std::vector<RankSocket> refused;
  std::vector<Diagnostic> reason;
  for (size_t come = 0; come < peers.size(); ++come) {
    auto hello = acceptHello(*listener, deadline);
    if (!hello || !*hello) {
      Error error = hello ? missing() : hello.takeError();
      llvm::append_range(reason, takeDiagnostics(std::move(error)));
      break;
    }
    auto &[socket, message] = **hello;
    Expected<int64_t> rank = checkHello(message);
    if (rank) {
      peers[static_cast<size_t>(*rank - 1)].reset(new Peer{*rank, std::move(socket)});
      continue;
    }
    // The others are to hear of it, so wait for them, too.
    llvm::append_range(reason, takeDiagnostics(rank.takeError()));
    refused.push_back(std::move(socket));
  }
  if (!reason.empty())
    reason.erase(reason.begin() + 1, reason.end()); // the others may follow from it
  const RankMessage answer = reason.empty() ? RankMessage{RankMessageKind::Welcome} : RankFailure{reason}.toMessage();
  // Whoever has ended is noticed later.
  for (const RankSocket &socket : refused)
    llvm::consumeError(socket.send(answer));
  for (const auto &peer : peers)
    if (peer)
      llvm::consumeError(peer->socket.send(answer));
  return reason.empty() ? Error::success() : llvm::make_error<DiagnosticError>(std::move(reason));
}

/// Another rank: finds the first, and waits until all are there.
Error RankGroup::findFirst(StringRef name) {
  const RankClock::time_point deadline = RankClock::now() + options.joinPatience;
  auto fail = [&](const Twine &what, std::optional<int64_t> teller) {
    return RankFailure::of("rank 0 of " + Twine(place.ranks) + " " + what + " (" + place.variable +
                               " of the environment is " + Twine(place.rank) + ")",
                           teller)
        .toError();
  };
  Expected<RankSocket> first = RankSocket::connect(name, deadline);
  if (!first) {
    llvm::consumeError(first.takeError());
    return fail("has not come within " + seconds(options.joinPatience), 1);
  }
  RankMessageWriter writer;
  writer.putText(options.version);
  writer.put(place.rank);
  writer.put(place.ranks);
  llvm::consumeError(first->send({RankMessageKind::Hello, std::move(writer.bytes)})); // then there is no answer
  // The first rank's patience may have begun later.
  const bool isAnswered = first->await(RankClock::now() + options.joinPatience + std::chrono::seconds(1));
  Expected<std::optional<RankMessage>> answer = isAnswered ? first->receive() : std::optional<RankMessage>();
  if (!answer)
    return answer.takeError();
  if (*answer && (*answer)->kind == RankMessageKind::Failure)
    return RankFailure::read(**answer).toError();
  if (!*answer || (*answer)->kind != RankMessageKind::Welcome)
    return isAnswered ? fail("has ended before all ranks had come", std::nullopt) : fail("has not answered", 1);
  peers.emplace_back(new Peer{0, std::move(*first)});
  return Error::success();
}

Error RankGroup::startWatching() {
  wakeUp = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakeUp.isOpen())
    return makeError("cannot watch the other ranks" + systemReason());
  std::optional<std::thread> thread = startThread([this] { watch(); });
  if (!thread)
    return makeError("the system refuses a thread that watches the other ranks");
  watcher = std::move(*thread);
  return Error::success();
}

} // namespace kiln
