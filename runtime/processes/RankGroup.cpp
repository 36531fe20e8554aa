#include "runtime/processes/RankGroup.h"

#include <poll.h>
#include <sys/eventfd.h>

namespace kiln {

namespace {

constexpr std::chrono::seconds turn(1);        // of the watching thread
constexpr unsigned mostSilentTurns = 20;       // until a process counts as lost
constexpr std::chrono::seconds endPatience(2); // until a process that should end is ended
/// How long this rank's error waits for that of another, from which it may follow.
constexpr std::chrono::milliseconds causePatience(300);

/// The diagnostics of an error, which stays as it is.
std::vector<Diagnostic> diagnosticsOf(Error &error) {
  std::vector<Diagnostic> all;
  error = llvm::handleErrors(std::move(error), [&](std::unique_ptr<DiagnosticError> one) -> Error {
    llvm::append_range(all, one->all());
    return Error(std::move(one));
  });
  return all;
}

} // namespace

RankGroup::~RankGroup() {
  {
    std::lock_guard lock(mutex);
    isStopping = true;
  }
  if (watcher.joinable()) {
    eventfd_write(wakeUp.number(), 1);
    watcher.join();
  }
}

//===----------------------------------------------------------------------===//
// Watching
//===----------------------------------------------------------------------===//

void RankGroup::watch() {
  RankClock::time_point nextTurn = RankClock::now() + turn;
  for (;;) {
    SmallVector<pollfd, 8> polled = {{wakeUp.number(), POLLIN, 0}};
    for (const auto &peer : peers)
      polled.push_back({peer->isClosed ? -1 : peer->socket.descriptor(), POLLIN, 0});
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(nextTurn - RankClock::now()).count();
    if (poll(polled.data(), polled.size(), static_cast<int>(std::max<int64_t>(left, 0))) > 0)
      for (auto [peer, one] : llvm::zip(peers, llvm::drop_begin(polled)))
        if (one.revents != 0)
          readFrom(*peer);
    {
      std::lock_guard lock(mutex);
      if (isStopping)
        return;
    }
    if (RankClock::now() >= nextTurn) {
      nextTurn = RankClock::now() + turn;
      beat();
    }
    endIfOverdue();
  }
}

void RankGroup::readFrom(Peer &peer) {
  Expected<std::optional<RankMessage>> message = peer.socket.receive();
  if (!message || !*message) {
    if (!message)
      llvm::consumeError(message.takeError());
    {
      std::lock_guard lock(mutex);
      peer.isClosed = true;
    }
    noteLost(peer, "has ended without a message: it was killed, or was out of memory", std::nullopt);
    return;
  }
  peer.silentTurns = 0;
  if ((*message)->kind == RankMessageKind::Failure)
    return note(RankFailure::read(**message), &peer);
  if ((*message)->kind == RankMessageKind::Beat)
    return;
  std::lock_guard lock(mutex);
  peer.received.push_back(std::move(**message));
  changed.notify_all();
}

/// Shows the others that this process runs, and counts how long they have not.
void RankGroup::beat() {
  for (const auto &peer : peers) {
    if (peer->isClosed)
      continue;
    // Turns are counted, not seconds: all processes may have been stopped for a while.
    if (++peer->silentTurns > mostSilentTurns)
      noteLost(*peer, "has been silent for " + Twine(mostSilentTurns) + " seconds", peer->rank == 0 ? 1 : 0);
    std::unique_lock lock(peer->sending, std::try_to_lock);
    if (lock) // else a message is being sent, which says more
      peer->socket.offer({RankMessageKind::Beat});
  }
}

void RankGroup::noteLost(const Peer &peer, const Twine &how, std::optional<int64_t> teller) {
  {
    std::lock_guard lock(mutex);
    changed.notify_all();
    if (isLeaving)
      return;
  }
  note(RankFailure::of("rank " + Twine(peer.rank) + " (process " + Twine(peer.socket.processId()) + ") " + how, teller),
       /*from=*/nullptr);
}

/// Keeps the first failure, ends what waits here, and tells those that may not know.
void RankGroup::note(RankFailure first, const Peer *from) {
  {
    std::lock_guard lock(mutex);
    if (failure)
      return;
    failure = first;
    overdue = RankClock::now() + endPatience;
    if (onFailure)
      onFailure();
    changed.notify_all();
  }
  tell(first, from);
}

void RankGroup::tell(const RankFailure &failure, const Peer *from) {
  const RankMessage message = failure.toMessage();
  for (const auto &peer : peers)
    if (peer.get() != from) {
      std::lock_guard lock(peer->sending);
      peer->socket.offer(message);
    }
}

/// Ends a process that goes on although a rank has failed: it may wait for what never comes.
void RankGroup::endIfOverdue() {
  std::optional<RankFailure> reason;
  {
    std::lock_guard lock(mutex);
    if (!overdue || RankClock::now() < *overdue)
      return;
    reason = failure;
  }
  options.onOverdue(*reason);
}

void RankGroup::setOnFailure(std::function<void()> chosen) {
  std::lock_guard lock(mutex);
  onFailure = std::move(chosen);
  if (failure && onFailure)
    onFailure();
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

/// The watching thread may be about to read why: another rank's failure, or the end of its process.
void RankGroup::awaitCause() {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, causePatience, [&] { return failure || isLeaving; });
}

Error RankGroup::send(const RankMessage &message) {
  for (const auto &peer : peers) {
    Error error = Error::success();
    {
      std::lock_guard lock(peer->sending);
      error = peer->socket.send(message);
    }
    if (!error)
      continue;
    llvm::consumeError(std::move(error));
    awaitCause();
    noteLost(*peer, "takes no messages any more", std::nullopt);
    std::lock_guard lock(mutex);
    return failure ? failure->toError() : Error::success();
  }
  return Error::success();
}

Expected<RankMessage> RankGroup::receive(int64_t from) {
  Peer &peer = peerOf(from);
  std::unique_lock lock(mutex);
  // The watching thread bounds this wait: a process that has ended or is silent is a failure.
  changed.wait(lock, [&] { return failure || !peer.received.empty() || (isLeaving && peer.isClosed); });
  if (failure)
    return failure->toError();
  if (peer.received.empty())
    return RankFailure::of("rank " + Twine(peer.rank) + " has left", std::nullopt).toError();
  RankMessage message = std::move(peer.received.front());
  peer.received.pop_front();
  return message;
}

Expected<std::vector<RankMessage>> RankGroup::gatherAsFirst(const RankMessage &own) {
  std::vector<RankMessage> all;
  RankMessage whole{RankMessageKind::Parts};
  RankMessageWriter writer;
  auto add = [&](const RankMessage &part) {
    writer.put<uint64_t>(part.descriptors.size());
    writer.putText(part.bytes);
    for (const Descriptor &descriptor : part.descriptors)
      whole.descriptors.push_back(descriptor.duplicate());
  };
  add(own);
  all.push_back({RankMessageKind::Parts, own.bytes});
  for (int64_t from = 1; from < ranks(); ++from) {
    Expected<RankMessage> part = receive(from);
    if (!part)
      return part.takeError();
    if (part->kind != RankMessageKind::Parts)
      return makeError("rank " + Twine(from) + " is at another place of the program");
    add(*part);
    all.push_back(std::move(*part));
  }
  whole.bytes = std::move(writer.bytes);
  if (Error error = send(whole))
    return error;
  return all;
}

Expected<std::vector<RankMessage>> RankGroup::gather(const RankMessage &own) {
  if (rank() == 0)
    return gatherAsFirst(own);
  RankMessage part{RankMessageKind::Parts, own.bytes};
  for (const Descriptor &descriptor : own.descriptors)
    part.descriptors.push_back(descriptor.duplicate());
  if (Error error = send(part))
    return error;
  Expected<RankMessage> whole = receive();
  if (!whole)
    return whole.takeError();
  std::vector<RankMessage> all(static_cast<size_t>(ranks()));
  RankMessageReader reader(whole->bytes);
  size_t next = 0;
  for (RankMessage &one : all) {
    one.kind = RankMessageKind::Parts;
    const auto count = reader.get<uint64_t>();
    one.bytes = reader.getText();
    for (size_t i = 0; i < count && next < whole->descriptors.size(); ++i)
      one.descriptors.push_back(std::move(whole->descriptors[next++]));
  }
  if (whole->kind != RankMessageKind::Parts || !reader.isWhole() || next != whole->descriptors.size())
    return makeError("rank 0 is at another place of the program");
  return all;
}

//===----------------------------------------------------------------------===//
// The end
//===----------------------------------------------------------------------===//

Error RankGroup::fail(const Twine &message) {
  note(RankFailure::of(message), nullptr);
  std::lock_guard lock(mutex);
  return failure->toError();
}

Error RankGroup::end(Error error) {
  if (std::exchange(hasEnded, true))
    return error;
  if (!error) {
    error = rank() == 0 ? send({RankMessageKind::End}) : Error::success();
    if (!error) {
      // From here on a process may be the first to end.
      {
        std::lock_guard lock(mutex);
        isLeaving = true;
      }
      return gather({RankMessageKind::Parts}).takeError();
    }
  }
  awaitCause();
  RankFailure own{diagnosticsOf(error)};
  if (!own.diagnostics.empty())
    own.diagnostics.front().message = ("rank " + Twine(rank()) + ": " + own.diagnostics.front().message).str();
  note(std::move(own), nullptr);
  llvm::consumeError(std::move(error));
  std::lock_guard lock(mutex);
  return failure->toError();
}

} // namespace kiln
