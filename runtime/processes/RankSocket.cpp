#include "runtime/processes/RankSocket.h"

#include "support/Diagnostic.h"

#include <cstddef>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>

namespace kiln {

namespace {

/// In front of a message's bytes.
struct MessageHeader {
  RankMessageKind kind;
  uint32_t descriptors;
  uint64_t bytes;
};

constexpr size_t mostDescriptors = 253;           // SCM_MAX_FD of Linux
constexpr uint64_t mostBytes = uint64_t(1) << 32; // far above any message: what is more is none
constexpr int mostSeconds = 10;                   // for a part of a message
constexpr std::chrono::milliseconds untilNextTry(10);

/// The address of a name that is in no file system.
struct Address {
  sockaddr_un address = {};
  socklen_t bytes = 0;

  explicit Address(StringRef name) {
    address.sun_family = AF_UNIX; // and a path that begins with a zero
    const size_t length = std::min(name.size(), sizeof(address.sun_path) - 1);
    std::memcpy(address.sun_path + 1, name.data(), length);
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&address); }
};

Descriptor openSocket() { return Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

union ControlBuffer {
  cmsghdr aligned;
  char bytes[CMSG_SPACE(sizeof(int) * mostDescriptors)];
};

/// Sends bytes, with descriptors beside the first of them. Returns whether all were sent.
bool sendBytes(int socket, StringRef bytes, ArrayRef<Descriptor> descriptors, int flags) {
  ControlBuffer control = {};
  while (!bytes.empty()) {
    iovec part = {const_cast<char *>(bytes.data()), bytes.size()};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
      message.msg_control = control.bytes;
      message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
      cmsghdr *first = CMSG_FIRSTHDR(&message);
      first->cmsg_level = SOL_SOCKET;
      first->cmsg_type = SCM_RIGHTS;
      first->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
      for (const auto &[i, descriptor] : llvm::enumerate(descriptors)) {
        const int number = descriptor.number();
        std::memcpy(CMSG_DATA(first) + i * sizeof(int), &number, sizeof(int));
      }
    }
    const ssize_t sent = sendmsg(socket, &message, flags | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent <= 0)
      return false;
    bytes = bytes.drop_front(static_cast<size_t>(sent));
    descriptors = {};
  }
  return true;
}

void takeDescriptors(msghdr &message, std::vector<Descriptor> &descriptors) {
  for (cmsghdr *at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at)) {
    if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
      continue;
    for (size_t offset = 0; CMSG_LEN(offset + sizeof(int)) <= at->cmsg_len; offset += sizeof(int)) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(at) + offset, sizeof(int));
      descriptors.emplace_back(number);
    }
  }
}

/// Fills a buffer, and takes the descriptors that come along. Returns how many bytes have come: fewer than wanted at
/// the end of the connection or after an error.
size_t receiveBytes(int socket, char *buffer, size_t wanted, std::vector<Descriptor> &descriptors) {
  size_t filled = 0;
  while (filled < wanted) {
    ControlBuffer control;
    iovec part = {buffer + filled, wanted - filled};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control.bytes);
    const ssize_t received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (received < 0 && errno == EINTR)
      continue;
    if (received <= 0)
      break;
    takeDescriptors(message, descriptors);
    filled += static_cast<size_t>(received);
  }
  return filled;
}

MessageHeader headerOf(const RankMessage &message) {
  return {message.kind, static_cast<uint32_t>(message.descriptors.size()), message.bytes.size()};
}

StringRef bytesOf(const MessageHeader &header) { return {reinterpret_cast<const char *>(&header), sizeof(header)}; }

} // namespace

//===----------------------------------------------------------------------===//
// Connections
//===----------------------------------------------------------------------===//

Expected<RankSocket> RankSocket::open(Descriptor socket) {
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  if (getsockopt(socket.number(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
    return makeError("cannot see which process a rank is" + systemReason());
  if (peer.uid != geteuid())
    return makeError("expected ranks that are processes of one user, got one of user " + Twine(peer.uid));
  const timeval patience = {mostSeconds, 0};
  for (int option : {SO_RCVTIMEO, SO_SNDTIMEO})
    if (setsockopt(socket.number(), SOL_SOCKET, option, &patience, sizeof(patience)) != 0)
      return makeError("cannot bound the time of a socket" + systemReason());
  RankSocket opened;
  opened.socket = std::move(socket);
  opened.process = peer.pid;
  return opened;
}

Expected<RankSocket> RankSocket::connect(StringRef name, RankClock::time_point deadline) {
  const Address address(name);
  for (;; std::this_thread::sleep_for(untilNextTry)) {
    Descriptor socket = openSocket();
    if (!socket.isOpen())
      return makeError("the system refuses a socket" + systemReason());
    if (::connect(socket.number(), address.get(), address.bytes) == 0)
      return open(std::move(socket));
    if (RankClock::now() > deadline)
      return makeError("nobody is there" + systemReason());
  }
}

Expected<RankListener> RankListener::create(StringRef name, RankClock::time_point deadline) {
  const Address address(name);
  RankListener listener;
  for (;; std::this_thread::sleep_for(untilNextTry)) {
    listener.socket = openSocket();
    if (!listener.socket.isOpen())
      return makeError("the system refuses a socket" + systemReason());
    if (bind(listener.socket.number(), address.get(), address.bytes) == 0 &&
        listen(listener.socket.number(), SOMAXCONN) == 0)
      return listener;
    // Another run of the same name may be about to begin.
    if (errno != EADDRINUSE || RankClock::now() > deadline)
      return makeError("cannot listen for the other ranks" + systemReason());
  }
}

/// Whether the descriptor can be read before the deadline.
static bool awaitReadable(const Descriptor &socket, RankClock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - RankClock::now()).count();
    pollfd polled = {socket.number(), POLLIN, 0};
    const int ready = poll(&polled, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (ready >= 0 || errno != EINTR)
      return ready > 0;
  }
}

bool RankSocket::await(RankClock::time_point deadline) const { return awaitReadable(socket, deadline); }

Expected<std::optional<RankSocket>> RankListener::accept(RankClock::time_point deadline) const {
  if (!awaitReadable(socket, deadline))
    return std::nullopt;
  Descriptor accepted(accept4(socket.number(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!accepted.isOpen())
    return makeError("cannot hear the other ranks" + systemReason());
  Expected<RankSocket> opened = RankSocket::open(std::move(accepted));
  if (!opened)
    return opened.takeError();
  return std::move(*opened);
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

Error RankSocket::send(const RankMessage &message) const {
  assert(message.descriptors.size() <= mostDescriptors && "the system takes no more at once");
  const MessageHeader header = headerOf(message);
  if (!sendBytes(socket.number(), bytesOf(header), message.descriptors, 0) ||
      !sendBytes(socket.number(), message.bytes, {}, 0))
    return makeError("cannot send to process " + Twine(process) + systemReason());
  return Error::success();
}

void RankSocket::offer(const RankMessage &message) const {
  const MessageHeader header = headerOf(message);
  // A small message is sent whole or not at all.
  sendBytes(socket.number(), bytesOf(header).str() + message.bytes, {}, MSG_DONTWAIT);
}

Expected<std::optional<RankMessage>> RankSocket::receive() const {
  MessageHeader header = {};
  RankMessage message;
  const size_t filled =
      receiveBytes(socket.number(), reinterpret_cast<char *>(&header), sizeof(header), message.descriptors);
  if (filled == 0)
    return std::nullopt;
  if (filled < sizeof(header) || header.bytes > mostBytes)
    return makeError("process " + Twine(process) + " has sent what is no message");
  message.kind = header.kind;
  message.bytes.resize(header.bytes);
  if (receiveBytes(socket.number(), message.bytes.data(), header.bytes, message.descriptors) < header.bytes ||
      message.descriptors.size() != header.descriptors)
    return makeError("process " + Twine(process) + " has sent a part of a message");
  return message;
}

} // namespace kiln
