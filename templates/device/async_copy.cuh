//===- async_copy.cuh - global memory to shared memory or L2, past registers ---===//
//
// A thread issues copies of 16 bytes, makes groups of them, and waits for its groups in order: cp.async of sm_80 and
// up. Other threads see the bytes after the issuing thread's wait and a barrier.
//
// In the emulator, the target is poisoned between issue and wait. So a read without a wait, or of memory into which a
// copy was issued too early, gives NaN.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/shared.cuh"

namespace kiln {

#if defined(__CUDACC__)

/// Starts a copy of 16 bytes to `to`. The first `bytes` of them are read at `from`, the rest are zero. Both addresses
/// are multiples of 16. The data is not kept in L1.
KILN_DEVICE void copyAsync(SharedAddress to, const void *from, u32 bytes, Site = Site::current()) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to.raw()), "l"(from), "r"(bytes) : "memory");
}
/// Copies all 16 bytes.
KILN_DEVICE void copyAsync(SharedAddress to, const void *from, Site = Site::current()) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to.raw()), "l"(from) : "memory");
}

/// Makes a group of the copies that this thread has issued since the last call. The group may be empty.
KILN_DEVICE void commitAsyncCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most the latest kPending groups of this thread are in flight.
template <int kPending> KILN_DEVICE void waitAsyncCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Asks for the line at an address in L2. It orders nothing: a later load sees what has been written until then.
KILN_DEVICE void prefetchLine(const void *from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }

#else

/// `code`: the place of the call in the library.
KILN_EMULATED_UNCHECKED inline void emulatedCopyAsync(SharedAddress to, const void *from, u32 bytes, const void *code,
                                                      Site site) {
  if (bytes > 16)
    emulatedThread->fail("asynchronous copy: expected at most 16 bytes", site);
  emulatedCheckAligned(to.pointer(), 16, site);
  emulatedCheckAligned(from, 16, site);
#if defined(KILN_EMULATED_CHECKED)
  // The compiler checks no copy whose size it does not know.
  if (bytes > 0)
    emulatedThread->checkAccess(from, bytes, EmulatedAccess::Read, code);
  emulatedThread->checkAccess(to.pointer(), 16, EmulatedAccess::Write, code);
#endif
  u8 value[16] = {};
  __builtin_memcpy(value, from, bytes);
  for (u32 i = 0; i < 4; ++i)
    static_cast<u32 *>(to.pointer())[i] = kEmulatedPoison;
  emulatedThread->copyLater(to.pointer(), value);
}

KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void copyAsync(SharedAddress to, const void *from, u32 bytes,
                                                        Site site = Site::current()) {
  emulatedCopyAsync(to, from, bytes, KILN_EMULATED_CALLER, site);
}
KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void copyAsync(SharedAddress to, const void *from,
                                                        Site site = Site::current()) {
  emulatedCopyAsync(to, from, 16, KILN_EMULATED_CALLER, site);
}

KILN_DEVICE void commitAsyncCopies() { emulatedThread->commitCopies(); }

template <int kPending> KILN_DEVICE void waitAsyncCopies() { emulatedThread->waitCopies(kPending); }

KILN_DEVICE void prefetchLine(const void *) {}

#endif

} // namespace kiln
