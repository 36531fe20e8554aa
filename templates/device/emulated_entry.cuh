//===- emulated_entry.cuh - how the emulator enters a kernel ---------------------===//
//
// CPU only. runtime/device/emulated/HostKernelCompiler.cpp puts this file behind a kernel's source, which has included
// device/base.cuh or, if it is self-contained, holds it. Behind this file come, for every kernel, two functions
// that, with a third one for all, are the shared library's whole interface: the arguments unpacked and the kernel
// called, the sizes of its parameters, and where the library keeps its current thread.
//
//===----------------------------------------------------------------------===//
#pragma once

#define KILN_EMULATED_EXPORT extern "C" __attribute__((visibility("default")))

namespace kiln {

/// Calls a kernel with its arguments, each behind a pointer; those are the launcher's, and no tensor's.
template <class... Parameters>
__attribute__((no_sanitize("kernel-address"))) void emulatedCall(void (*kernel)(Parameters...), void **args) {
  struct Call {
    __attribute__((no_sanitize("kernel-address"))) Call(void (*kernel)(Parameters...), Parameters... parameters) {
      kernel(parameters...);
    }
  };
  // Braces, because they evaluate from left to right.
  Call{kernel, *static_cast<Parameters *>(*args++)...};
}

/// The size of every parameter, and behind the last one 0.
template <class... Parameters> const u64 *emulatedParameters(void (*)(Parameters...)) {
  static constexpr u64 sizes[] = {sizeof(Parameters)..., 0};
  return sizes;
}

} // namespace kiln

#if defined(KILN_EMULATED_CHECKED)

// The compiler calls these before every access to memory (-fsanitize=kernel-address, with calls in place of
// inline checks, leaves it to the program to say what they do).
namespace kiln {

__attribute__((no_sanitize("kernel-address"), always_inline)) inline void
emulatedCheck(u64 address, u64 bytes, EmulatedAccess access, const void *code) {
  // Most accesses by far are to local variables of the callers, and to the thread's own coordinates.
  if (address - reinterpret_cast<u64>(__builtin_frame_address(0)) < kEmulatedStackBytes)
    return;
  EmulatedThread *self = emulatedThread;
  // Clang checks the access to `emulatedThread` too, GCC does not.
  if (address - reinterpret_cast<u64>(self) >= sizeof(*self) && address != reinterpret_cast<u64>(&emulatedThread))
    self->checkAccess(reinterpret_cast<const void *>(address), bytes, access, code);
}

} // namespace kiln

#define KILN_CHECK __attribute__((no_sanitize("kernel-address")))
#define KILN_CHECK_SIZE(BYTES)                                                                                         \
  KILN_CHECK void __asan_load##BYTES##_noabort(kiln::u64 address) {                                                    \
    kiln::emulatedCheck(address, BYTES, kiln::EmulatedAccess::Read, __builtin_return_address(0));                      \
  }                                                                                                                    \
  KILN_CHECK void __asan_store##BYTES##_noabort(kiln::u64 address) {                                                   \
    kiln::emulatedCheck(address, BYTES, kiln::EmulatedAccess::Write, __builtin_return_address(0));                     \
  }

extern "C" {
KILN_CHECK_SIZE(1)
KILN_CHECK_SIZE(2)
KILN_CHECK_SIZE(4)
KILN_CHECK_SIZE(8)
KILN_CHECK_SIZE(16)
KILN_CHECK void __asan_loadN_noabort(kiln::u64 address, kiln::u64 bytes) {
  kiln::emulatedCheck(address, bytes, kiln::EmulatedAccess::Read, __builtin_return_address(0));
}
KILN_CHECK void __asan_storeN_noabort(kiln::u64 address, kiln::u64 bytes) {
  kiln::emulatedCheck(address, bytes, kiln::EmulatedAccess::Write, __builtin_return_address(0));
}
KILN_CHECK void __asan_handle_no_return() {}
}

#undef KILN_CHECK_SIZE
#undef KILN_CHECK

#endif
