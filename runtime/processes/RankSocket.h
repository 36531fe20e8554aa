//===- RankSocket.h - messages between processes of a host ----------------===//
//
// Unix sockets with names that no file system has (unix(7), "abstract"): a process that is killed leaves nothing
// behind.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/files/Descriptor.h"

#include <chrono>

namespace kiln {

enum class RankMessageKind : uint32_t {
  Hello,   ///< of a process to the first rank
  Welcome, ///< of the first rank, when all have come
  Parts,   ///< of RankGroup::gather
  Call,    ///< of the first rank: what the others are to do
  Reply,   ///< to it
  Failure, ///< a rank has failed
  Beat,    ///< the sender runs
  End,     ///< of the first rank: there are no more calls
};

struct RankMessage {
  RankMessageKind kind = RankMessageKind::Call;
  std::string bytes = {};
  std::vector<Descriptor> descriptors = {}; ///< the receiver gets its own of the same files
};

/// Values of a message, one after the other.
class RankMessageWriter {
public:
  std::string bytes;

  template <class T> void put(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    bytes.append(reinterpret_cast<const char *>(&value), sizeof(value));
  }
  template <class T> void putAll(ArrayRef<T> values) {
    put<uint64_t>(values.size());
    bytes.append(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T));
  }
  void putText(StringRef text) { putAll(ArrayRef(text.data(), text.size())); }
};

/// Reads what a RankMessageWriter has put, in the same order. What a message lacks reads as nothing.
class RankMessageReader {
public:
  explicit RankMessageReader(StringRef bytes) : rest(bytes) {}

  template <class T> T get() {
    T value = {};
    isShort |= rest.size() < sizeof(value);
    if (!isShort)
      std::memcpy(&value, rest.data(), sizeof(value));
    rest = rest.drop_front(isShort ? rest.size() : sizeof(value));
    return value;
  }
  template <class T> std::vector<T> getAll() {
    const auto count = get<uint64_t>();
    isShort |= rest.size() / sizeof(T) < count;
    std::vector<T> values(isShort ? 0 : count);
    const size_t bytes = values.size() * sizeof(T);
    if (bytes > 0)
      std::memcpy(values.data(), rest.data(), bytes);
    rest = rest.drop_front(bytes);
    return values;
  }
  std::string getText() {
    std::vector<char> text = getAll<char>();
    return {text.begin(), text.end()};
  }

  bool isAtEnd() const { return isShort || rest.empty(); }
  /// Whether all values were there, and no others.
  bool isWhole() const { return !isShort && rest.empty(); }

private:
  StringRef rest;
  bool isShort = false;
};

using RankClock = std::chrono::steady_clock;

/// One end of a connection to another process of the same user.
class RankSocket {
public:
  /// Connects to a RankListener of that name, which may still have to be made. Error: there is none until `deadline`.
  static Expected<RankSocket> connect(StringRef name, RankClock::time_point deadline);

  int descriptor() const { return socket.number(); }
  int64_t processId() const { return process; }

  /// Error: the other end is closed, or takes nothing for seconds.
  Error send(const RankMessage &message) const;
  /// Sends it if the other end has room for it.
  void offer(const RankMessage &message) const;

  /// Waits until there is something to receive, or until the deadline; returns whether there is.
  bool await(RankClock::time_point deadline) const;

  /// Waits for a message; nothing if the other end was closed, which is the case when its process has ended, or if it
  /// sends nothing for seconds. Error: what comes is no whole message.
  Expected<std::optional<RankMessage>> receive() const;

private:
  friend class RankListener;
  /// Error: the other end is a process of another user.
  static Expected<RankSocket> open(Descriptor socket);

  Descriptor socket;
  int64_t process = 0;
};

/// Where other processes of the same user connect.
class RankListener {
public:
  /// Error: another process has the name, also at `deadline`.
  static Expected<RankListener> create(StringRef name, RankClock::time_point deadline);

  /// The next process that connects; nothing if there is none until `deadline`. Error: that of the system.
  Expected<std::optional<RankSocket>> accept(RankClock::time_point deadline) const;

private:
  Descriptor socket;
};

} // namespace kiln
