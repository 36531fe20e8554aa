//===- shared.cuh - shared memory of a block ------------------------------------===//
//
// Shared memory is undefined when a block starts; the emulator fills it with NaN.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

/// The shared memory of a block, in bytes: what the kernel declares (sharedStorage, all types together), and what it
/// uses of the launch's (dynamicShared). A template states this for its kernels, and a generated kernel asserts that
/// the plan agrees.
struct SharedBytes {
  int declared, dynamic;

  KILN_DEVICE friend constexpr bool operator==(const SharedBytes &a, const SharedBytes &b) {
    return a.declared == b.declared && a.dynamic == b.dynamic;
  }
};

#if defined(__CUDACC__)

/// The block's static shared memory of type T: every call with the same T gives the same object. At most 48 KB for all
/// types together; aligned to at least 16 bytes.
template <class T> KILN_DEVICE T &sharedStorage(Site = Site::current()) {
  alignas(alignof(T) > 16 ? alignof(T) : 16) __shared__ u8 bytes[sizeof(T)];
  return *reinterpret_cast<T *>(bytes);
}

/// The block's dynamic shared memory as a T; the launch sets its size. Aligned to 1024 bytes. Every call gives the same
/// memory, for any type.
template <class T> KILN_DEVICE T &dynamicShared(Site = Site::current()) {
  alignas(1024) extern __shared__ u8 kilnDynamicShared[];
  return *reinterpret_cast<T *>(kilnDynamicShared);
}

/// An address in shared memory, in the form that asynchronous copies and matrix loads take. It is opaque: it can be
/// made from a pointer into shared memory, moved by bytes, and have bits of its offset flipped.
class SharedAddress {
public:
  KILN_DEVICE explicit SharedAddress(const void *pointer)
      : address(static_cast<u32>(__cvta_generic_to_shared(pointer))) {}

  KILN_DEVICE friend SharedAddress operator+(SharedAddress base, u32 bytes) {
    base.address += bytes;
    return base;
  }
  /// Flips bits of the address: moves within a block of memory that is aligned to a power of two above `bits`.
  KILN_DEVICE friend SharedAddress operator^(SharedAddress base, u32 bits) {
    base.address ^= bits;
    return base;
  }
  KILN_DEVICE friend bool operator==(SharedAddress a, SharedAddress b) { return a.address == b.address; }

  /// Only for instructions in this folder.
  KILN_DEVICE u32 raw() const { return address; }
  KILN_DEVICE static SharedAddress ofRaw(u32 address) { return SharedAddress(address); }

private:
  KILN_DEVICE explicit SharedAddress(u32 address) : address(address) {}

  u32 address;
};

#else

/// One object per type; its address identifies the variable to the emulator.
template <class T> inline char emulatedSharedTag = 0;

template <class T> KILN_DEVICE T &sharedStorage(Site site = Site::current()) {
  return *static_cast<T *>(
      emulatedThread->staticShared(&emulatedSharedTag<T>, sizeof(T), max<u64>(alignof(T), 16), site));
}

template <class T> KILN_DEVICE T &dynamicShared(Site site = Site::current()) {
  static_assert(alignof(T) <= 1024);
  return *static_cast<T *>(emulatedThread->dynamicShared(sizeof(T), site));
}

class SharedAddress {
public:
  KILN_DEVICE explicit SharedAddress(const void *pointer) : address(reinterpret_cast<u64>(pointer)) {}

  KILN_DEVICE friend SharedAddress operator+(SharedAddress base, u32 bytes) {
    base.address += bytes;
    return base;
  }
  KILN_DEVICE friend SharedAddress operator^(SharedAddress base, u32 bits) {
    base.address ^= bits;
    return base;
  }
  KILN_DEVICE friend bool operator==(SharedAddress a, SharedAddress b) { return a.address == b.address; }

  KILN_DEVICE void *pointer() const { return reinterpret_cast<void *>(address); }

private:
  u64 address;
};

#endif

/// A row of an operand tile is 128 bytes, as wide as all 32 banks: eight chunks of 16 bytes.
constexpr u32 kSwizzledRowBytes = 128, kChunkBytes = 16, kRowChunks = kSwizzledRowBytes / kChunkBytes;

/// The permutation of chunks by the row repeats after this many bytes. Tiles that boxes are copied to, and that
/// products of a warpgroup read, start at a multiple of it.
constexpr u32 kWarpgroupTileAlignment = kRowChunks * kSwizzledRowBytes;

/// The byte offset of a chunk in a tile of such rows, whose chunks are permuted by `key`. Chunks of one index in eight
/// rows with different keys (modulo 8) lie in different banks, so that a matrix load reads them without conflicts.
KILN_DEVICE constexpr u32 swizzledOffset(u32 row, u32 chunk, u32 key) {
  return row * kSwizzledRowBytes + (chunk ^ key % kRowChunks) * kChunkBytes;
}

} // namespace kiln
