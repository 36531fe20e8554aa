//===- emulated.cuh - the link from a kernel on the CPU to its scheduler ---===//
//
// CPU only. A kernel that is compiled for the CPU is in a shared library, which does not link to the program: it
// reaches the scheduler of runtime/device/emulated/ through the virtual functions of EmulatedThread. The scheduler sets
// `emulatedThread` before it resumes a thread, so that primitives need no handle as a parameter.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

/// Coordinates of a block in its grid, or the extent of a grid.
struct EmulatedIndex {
  u32 x = 0, y = 0, z = 0;
};

/// Computes a collective when all its threads have arrived. `lanes[i]` is the input of lane i (null if lane i is not a
/// member); results are written into the same objects. Returns a message if the collective is used wrongly, else null.
using EmulatedCombine = const char *(*)(void *const *lanes);

struct TensorMap;

/// The content of memory that nothing has written: NaN as float, bf16 and f16, and an index far out of every range.
constexpr u32 kEmulatedPoison = 0x7fdb7fdb;

/// Bytes of a thread's stack; an unused area of the same size lies beyond its end.
constexpr u64 kEmulatedStackBytes = 64 << 10;

/// The effect of an access. Another kind of access is one more line here, and
/// one in each table of AccessHistory.cpp, which say what it does and what races with what.
enum class EmulatedAccess : u32 {
  Read,
  Write,
  Atomic, ///< reads and writes at once; several threads may do so without synchronisation
  Kinds,  ///< not a kind, but their number
};
constexpr u32 kEmulatedAccesses = static_cast<u32>(EmulatedAccess::Kinds);

/// A thread of a running block, as primitives see it. The plain members are read by index.cuh or store the state that
/// primitives keep per thread. No function takes an object by value: GCC does not forget at such a call which addresses
/// it has checked, and so would not check a later access to the same place.
class EmulatedThread {
public:
  u32 thread = 0;       ///< index in the block
  u32 blockThreads = 0; ///< threads of the block
  EmulatedIndex block;
  EmulatedIndex grid;
  u32 clusterRank = 0;   ///< index of the block in its cluster
  u32 clusterBlocks = 1; ///< blocks of the cluster

  /// State of its warpgroup's products (warpgroup.cuh): the number of committed groups, the number of these that it has
  /// waited for, and whether its registers are ordered before further products.
  u32 committedProducts = 0, finishedProducts = 0;
  bool areProductsFenced = false;

  bool hasWaitedForDependencies = false; ///< of grid.cuh

  /// Waits for every thread of the block; returns the number of threads that passed true.
  virtual u32 syncBlock(bool predicate, const Site &site) = 0;

  /// Waits until every lane of `members` has called this with the same arguments except `lane`; the last lane to arrive
  /// runs `combine`. `lane` may be on the caller's stack.
  virtual void syncWarp(u32 members, void *lane, EmulatedCombine combine, const Site &site) = 0;

  /// The collective of a warpgroup, warpgroup.cuh: like syncWarp for all its threads; `combine` gets all 128 values.
  virtual void syncWarpgroup(void *lane, EmulatedCombine combine, const Site &site) = 0;

  /// Lets other threads run: every loop that waits for another thread's write must call it.
  virtual void pause(const Site &site) = 0;
  /// Whether it may wait for threads of other blocks: all of them run interleaved.
  virtual bool mayWaitForBlocks() const = 0;
  /// The same in a loop that waits for a write of another rank, which runs in another thread of the host or in another
  /// process. `turn` counts the calls of the loop from 0. It ends the launch with an error if the word at `stop` is not
  /// zero, or if the loop has waited too long.
  virtual void pauseForRank(u32 turn, const u32 *stop, const Site &site) = 0;
  /// Called behind a load that acquires: whatever other threads did so far may be ordered before what comes next.
  virtual void acquire() = 0;

  /// Nanoseconds of the host's clock, modulo 2³².
  virtual u32 clock() = 0;

  /// The static shared memory of the variable `tag`; all threads of the block get the same.
  virtual void *staticShared(const void *tag, u64 bytes, u64 alignment, const Site &site) = 0;

  /// The block's dynamic shared memory. The launch must have requested at least `bytes`.
  virtual void *dynamicShared(u64 bytes, const Site &site) = 0;

  /// Records 16 bytes to write to shared memory. They are written when the thread waits for their group of copies.
  virtual void copyLater(void *to, const void *bytes) = 0;
  /// Makes a group of the copies recorded since the last call.
  virtual void commitCopies() = 0;
  /// Completes all groups of this thread except the latest `pending`.
  virtual void waitCopies(u32 pending) = 0;

  /// Barriers in shared memory, barrier.cuh: starts one of so many arrivals; makes all that this thread has started
  /// visible to others; arrives and adds to the bytes that the phase expects; waits until the phase that the thread
  /// means by this parity is complete, `isOfCluster` if other blocks may take part in it. Threads arrive at barriers of
  /// other blocks, too.
  virtual void initBarrier(u64 *barrier, u32 arrivals, const Site &site) = 0;
  virtual void fenceBarriers() = 0;
  virtual void arriveAtBarrier(u64 *barrier, u32 bytes, const Site &site) = 0;
  virtual void waitForPhase(u64 *barrier, u32 parity, bool isOfCluster, const Site &site) = 0;

  /// Blocks of a cluster, cluster.cuh: the halves of their barrier; the place of an object in another block; accesses
  /// to shared memory of any block, `code` as for copyBox; and bytes for such a place that arrive at a barrier.
  virtual void arriveCluster(const Site &site) = 0;
  virtual void waitCluster(const Site &site) = 0;
  virtual void *inBlock(const void *own, u32 rank, const Site &site) = 0;
  virtual void readCluster(void *to, const void *from, u64 bytes, const Site &site, const void *code) = 0;
  virtual void writeCluster(void *to, const void *from, u64 bytes, const Site &site, const void *code) = 0;
  virtual void sendCluster(void *to, const void *from, u64 bytes, u64 *barrier, const Site &site, const void *code) = 0;

  /// Starts the copy of a box, tensor_copy.cuh. `code` is the place of the call in the library if accesses are checked,
  /// else null.
  virtual void copyBox(void *to, const TensorMap &from, const int *at, u32 rank, u64 *barrier, const Site &site,
                       const void *code) = 0;
  /// The same to each of the cluster's blocks whose rank is a bit of `blocks`, cluster_copy.cuh.
  virtual void copyBoxToBlocks(void *to, const TensorMap &from, const int *at, u32 rank, u64 *barrier, u32 blocks,
                               const Site &site, const void *code) = 0;

  /// Starts the copy of contiguous bytes of global memory, bulk_copy.cuh; `code` as for copyBox.
  virtual void copyBytes(void *to, const void *from, u64 bytes, u64 *barrier, const Site &site, const void *code) = 0;

  /// Checks an access, in a kernel that is compiled with checked accesses. `code` is the place of the access in the
  /// library.
  virtual void checkAccess(const void *address, u64 bytes, EmulatedAccess access, const void *code) = 0;

  /// Checks a read of an operand by all lanes of the warp as one, likewise.
  virtual void checkOperand(const void *address, u64 bytes, const void *code) = 0;

  /// Ends the launch with an error at `site`.
  [[noreturn]] virtual void fail(const char *message, const Site &site) = 0;

protected:
  ~EmulatedThread() = default;
};

/// The thread that runs now on this core.
inline thread_local EmulatedThread *emulatedThread = nullptr;

/// For functions of primitives whose accesses the compiler shall not check: it has nothing to find in them.
#if defined(KILN_EMULATED_CHECKED)
#define KILN_EMULATED_UNCHECKED __attribute__((no_sanitize("kernel-address")))
#else
#define KILN_EMULATED_UNCHECKED
#endif

/// For primitives whose accesses are of another kind than the compiler's checks would assume. The attribute turns these
/// checks off; the primitive calls emulatedNote for each access instead. Such a primitive is not inlined, so that
/// errors show the line that calls it.
#if defined(KILN_EMULATED_CHECKED)
#define KILN_EMULATED_NOTES_ACCESSES KILN_EMULATED_UNCHECKED __attribute__((noinline))
#else
#define KILN_EMULATED_NOTES_ACCESSES
#endif

/// The place in the library that calls such a primitive, for checks after the call; null without checked accesses.
#if defined(KILN_EMULATED_CHECKED)
#define KILN_EMULATED_CALLER __builtin_return_address(0)
#else
#define KILN_EMULATED_CALLER nullptr
#endif

/// Checks an access of such a primitive, in a kernel that is compiled with checked accesses.
template <class T>
__attribute__((no_sanitize("kernel-address"), always_inline)) inline void emulatedNote(const T *address,
                                                                                       EmulatedAccess access) {
#if defined(KILN_EMULATED_CHECKED)
  emulatedThread->checkAccess(address, sizeof(T), access, __builtin_return_address(0));
#endif
}

/// Reports an access of `bytes` bytes at an address that is not a multiple of `bytes`.
inline void emulatedCheckAligned(const void *address, u64 bytes, Site site) {
  if (reinterpret_cast<u64>(address) % bytes != 0)
    emulatedThread->fail("misaligned vector access: expected an address aligned to its size", site);
}

} // namespace kiln
