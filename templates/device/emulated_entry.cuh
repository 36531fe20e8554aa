//===- emulated_entry.cuh - how the emulator enters a kernel ---------------------===//
//
// CPU only. runtime/emulated/HostKernelCompiler.cpp puts this file in front of a kernel's source, and behind it, for
// every kernel, three functions that are the shared library's whole interface: the arguments unpacked and the kernel
// called, the number of arguments, and where the library keeps its current thread.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"

#define KILN_EMULATED_EXPORT extern "C" __attribute__((visibility("default")))

namespace kiln {

/// Calls a kernel with its arguments, each behind a pointer.
template <class... Parameters> void emulatedCall(void (*kernel)(Parameters...), void **args) {
  struct Call {
    Call(void (*kernel)(Parameters...), Parameters... parameters) { kernel(parameters...); }
  };
  // Braces, because they evaluate from left to right.
  Call{kernel, *static_cast<Parameters *>(*args++)...};
}

template <class... Parameters> constexpr u32 emulatedParameters(void (*)(Parameters...)) {
  return sizeof...(Parameters);
}

} // namespace kiln
