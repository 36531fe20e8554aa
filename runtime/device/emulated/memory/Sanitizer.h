//===- Sanitizer.h - hints to AddressSanitizer ----------------------------===//
#pragma once

#include "support/ADT.h"

#if defined(__SANITIZE_ADDRESS__)
#define KILN_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KILN_ADDRESS_SANITIZER 1
#endif
#endif

#if defined(KILN_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace kiln {

#if defined(KILN_ADDRESS_SANITIZER)

inline constexpr bool hasAddressSanitizer = true;

/// Makes every access to the bytes an error, and allows accesses again.
inline void forbidAccess(void *address, size_t bytes) { __asan_poison_memory_region(address, bytes); }
inline void allowAccess(void *address, size_t bytes) { __asan_unpoison_memory_region(address, bytes); }

/// Call these right before and right after a switch of stacks. `frames` keeps the shadow frames of the stack that is
/// left; it is null when that stack ends.
inline void beforeSwitch(void **frames, const void *stack, size_t bytes) {
  __sanitizer_start_switch_fiber(frames, stack, bytes);
}
inline void afterSwitch(void *frames, const void **leftStack, size_t *leftBytes) {
  __sanitizer_finish_switch_fiber(frames, leftStack, leftBytes);
}

#else

inline constexpr bool hasAddressSanitizer = false;

inline void forbidAccess(void *, size_t) {}
inline void allowAccess(void *, size_t) {}
inline void beforeSwitch(void **, const void *, size_t) {}
inline void afterSwitch(void *, const void **, size_t *) {}

#endif

} // namespace kiln
