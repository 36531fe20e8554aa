//===- shared.cuh - memory of a block ------------------------------------------===//
//
// Shared memory holds no defined values when a block starts; the emulator fills it with NaN.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

#if defined(__CUDACC__)

/// The block's static shared memory of type T: every call with the same T means the same object. At most 48
/// KB for all types together; aligned to 16 bytes at least.
template <class T> KILN_DEVICE T &sharedStorage(Site = Site::current()) {
  alignas(alignof(T) > 16 ? alignof(T) : 16) __shared__ u8 bytes[sizeof(T)];
  return *reinterpret_cast<T *>(bytes);
}

/// The block's dynamic shared memory seen as a T; its size is set at the launch. Aligned to 128 bytes. Every
/// call means the same memory, whatever the type.
template <class T> KILN_DEVICE T &dynamicShared(Site = Site::current()) {
  alignas(128) extern __shared__ u8 kilnDynamicShared[];
  return *reinterpret_cast<T *>(kilnDynamicShared);
}

/// A place in shared memory, in the form that asynchronous copies and matrix loads take. Opaque: it can be
/// made from a pointer into shared memory and moved by bytes.
class SharedAddress {
public:
  KILN_DEVICE explicit SharedAddress(const void *pointer)
      : address(static_cast<u32>(__cvta_generic_to_shared(pointer))) {}

  KILN_DEVICE friend SharedAddress operator+(SharedAddress base, u32 bytes) {
    base.address += bytes;
    return base;
  }
  KILN_DEVICE friend bool operator==(SharedAddress a, SharedAddress b) { return a.address == b.address; }

private:
  u32 address;
};

#else

/// One object per type, whose address tells the emulator which variable is meant.
template <class T> inline char emulatedSharedTag = 0;

template <class T> KILN_DEVICE T &sharedStorage(Site site = Site::current()) {
  return *static_cast<T *>(
      emulatedThread->staticShared(&emulatedSharedTag<T>, sizeof(T), max<u64>(alignof(T), 16), site));
}

template <class T> KILN_DEVICE T &dynamicShared(Site site = Site::current()) {
  static_assert(alignof(T) <= 128);
  return *static_cast<T *>(emulatedThread->dynamicShared(sizeof(T), site));
}

class SharedAddress {
public:
  KILN_DEVICE explicit SharedAddress(const void *pointer) : address(reinterpret_cast<u64>(pointer)) {}

  KILN_DEVICE friend SharedAddress operator+(SharedAddress base, u32 bytes) {
    base.address += bytes;
    return base;
  }
  KILN_DEVICE friend bool operator==(SharedAddress a, SharedAddress b) { return a.address == b.address; }

private:
  u64 address;
};

#endif

} // namespace kiln
