//===- emulated_entry.cuh - the emulator's entry into a kernel ------------===//
//
// CPU only. runtime/device/emulated/compile/HostKernelCompiler.cpp appends this file to a kernel's source, which has
// included or, if it is self-contained, contains device/base.cuh. After this file follow two functions for every
// kernel: one unpacks the arguments and calls the kernel, one gives the sizes of its parameters. With a third function,
// which gives the place of the library's current thread, they are the whole interface of the shared library.
//
//===----------------------------------------------------------------------===//
#pragma once

#define KILN_EMULATED_EXPORT extern "C" __attribute__((visibility("default")))

namespace kiln {

/// Calls a kernel with its arguments, given by pointers. The pointers belong to the launcher, not to a tensor.
template <class... Parameters>
__attribute__((no_sanitize("kernel-address"))) void emulatedCall(void (*kernel)(Parameters...), void **args) {
  struct Call {
    __attribute__((no_sanitize("kernel-address"))) Call(void (*kernel)(Parameters...), Parameters... parameters) {
      kernel(parameters...);
    }
  };
  // Braces guarantee evaluation from left to right.
  Call{kernel, *static_cast<Parameters *>(*args++)...};
}

/// The size of every parameter, then 0.
template <class... Parameters> const u64 *emulatedParameters(void (*)(Parameters...)) {
  static constexpr u64 sizes[] = {sizeof(Parameters)..., 0};
  return sizes;
}

} // namespace kiln

#if defined(KILN_EMULATED_CHECKED)

// The compiler calls these before every access to memory: -fsanitize=kernel-address with calls instead of inline checks
// lets the program define them.
namespace kiln {

__attribute__((no_sanitize("kernel-address"), always_inline)) inline void
emulatedCheck(u64 address, u64 bytes, EmulatedAccess access, const void *code) {
  // Most accesses are to local variables of the callers, and to the thread's own coordinates.
  if (address - reinterpret_cast<u64>(__builtin_frame_address(0)) < kEmulatedStackBytes)
    return;
  EmulatedThread *self = emulatedThread;
  // Clang also checks the access to `emulatedThread`; GCC does not.
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
