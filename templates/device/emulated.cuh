//===- emulated.cuh - how a kernel on the CPU reaches its scheduler ----------===//
//
// CPU only. A kernel compiled for the CPU lives in a shared library that links to nothing of the program: it
// reaches the scheduler of runtime/device/emulated/ through the virtual functions of EmulatedThread. The scheduler
// sets `emulatedThread` before it resumes a thread, so that primitives need no handle in their signatures.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

/// Coordinates of a block in its grid, or the extent of a grid.
struct EmulatedIndex {
  u32 x = 0, y = 0, z = 0;
};

/// Computes a collective once all its threads have arrived: `lanes[i]` is what lane i brought (null if lane i
/// is no member), and the results are written into the same objects. Returns a message when the collective is
/// wrongly used, else null.
using EmulatedCombine = const char *(*)(void *const *lanes);

/// The content of memory that nothing has written: NaN as float, bf16 and f16, and an index far out of every range.
constexpr u32 kEmulatedPoison = 0x7fdb7fdb;

/// Bytes of a thread's stack; an unused area of the same size lies beyond its end.
constexpr u64 kEmulatedStackBytes = 64 << 10;

/// The effect of an access. Another kind of access, such as that of an asynchronous copy, is one more line here, and
/// one in each table of AccessHistory.cpp, which say what it does and what races with what.
enum class EmulatedAccess : u32 {
  Read,
  Write,
  Atomic, ///< reads and writes at once; several threads may do so with nothing between them
  Kinds,  ///< not a kind, but their number
};
constexpr u32 kEmulatedAccesses = static_cast<u32>(EmulatedAccess::Kinds);

/// A thread of a running block, as its primitives see it. The plain members are what index.cuh reads, and
/// what primitives remember of the thread.
class EmulatedThread {
public:
  u32 thread = 0;       ///< index in the block
  u32 blockThreads = 0; ///< threads of the block
  EmulatedIndex block;
  EmulatedIndex grid;

  /// Of its warpgroup's products (warpgroup.cuh): groups committed, groups of these that it has waited for, and whether
  /// its registers are ordered before further ones.
  u32 committedProducts = 0, finishedProducts = 0;
  bool areProductsFenced = false;

  /// Waits for every thread of the block; returns how many of them brought true.
  virtual u32 syncBlock(bool predicate, Site site) = 0;

  /// Waits until every lane of `members` has called this with the same arguments but `lane`; the last one to
  /// arrive runs `combine`. `lane` may live on the caller's stack.
  virtual void syncWarp(u32 members, void *lane, EmulatedCombine combine, Site site) = 0;

  /// The same for all threads of a warpgroup, warpgroup.cuh; `combine` gets the values of all 128.
  virtual void syncWarpgroup(void *lane, EmulatedCombine combine, Site site) = 0;

  /// Lets other threads run: every loop that waits for another thread's write must call it.
  virtual void pause(Site site) = 0;

  /// The block's static shared memory of the variable `tag`, the same for all its threads.
  virtual void *staticShared(const void *tag, u64 bytes, u64 alignment, Site site) = 0;

  /// The block's dynamic shared memory, of which at least `bytes` must have been asked for at the launch.
  virtual void *dynamicShared(u64 bytes, Site site) = 0;

  /// Takes note of 16 bytes to write to shared memory, which they reach when the group of copies that they belong
  /// to is waited for.
  virtual void copyLater(void *to, const void *bytes) = 0;
  /// Makes a group of the copies noted since the last call.
  virtual void commitCopies() = 0;
  /// Completes all groups of this thread but the latest `pending`.
  virtual void waitCopies(u32 pending) = 0;

  /// Checks an access of a kernel that is compiled with checked accesses; `code` is where it stands in the
  /// library.
  virtual void checkAccess(const void *address, u64 bytes, EmulatedAccess access, const void *code) = 0;

  /// Ends the launch with an error at `site`.
  [[noreturn]] virtual void fail(const char *message, Site site) = 0;

protected:
  ~EmulatedThread() = default;
};

/// The thread that runs now on this core.
inline thread_local EmulatedThread *emulatedThread = nullptr;

/// Before a primitive whose accesses are of another kind than the compiler's checks would say, of which it then has
/// none: it calls emulatedNote for each. A function of its own, so that errors show the line that calls it.
#if defined(KILN_EMULATED_CHECKED)
#define KILN_EMULATED_NOTES_ACCESSES __attribute__((no_sanitize("kernel-address"), noinline))
#else
#define KILN_EMULATED_NOTES_ACCESSES
#endif

/// Checks an access of such a primitive, in a kernel that is compiled with checked accesses.
template <class T>
__attribute__((no_sanitize("kernel-address"), always_inline)) inline void emulatedNote(const T *address,
                                                                                       EmulatedAccess access) {
#if defined(KILN_EMULATED_CHECKED)
  emulatedThread->checkAccess(address, sizeof(T), access, __builtin_return_address(0));
#endif
}

/// Reports an access of `bytes` bytes at an address that is no multiple of `bytes`.
inline void emulatedCheckAligned(const void *address, u64 bytes, Site site) {
  if (reinterpret_cast<u64>(address) % bytes != 0)
    emulatedThread->fail("misaligned vector access: expected an address aligned to its size", site);
}

} // namespace kiln
