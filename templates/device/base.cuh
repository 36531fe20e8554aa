//===- base.cuh - the base of every device header ------------------------------===//
//
// Kernel templates and generated kernels are plain C++ plus the primitives of templates/device/. Every primitive has
// two implementations side by side: one for the GPU (nvcc, NVRTC) and one for the CPU, where the emulator of
// runtime/device/emulated/ runs the same source thread by thread. Nothing outside this folder uses intrinsics, PTX,
// CUDA headers or standard headers.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;
using u16 = unsigned short;
using u8 = unsigned char;

static_assert(sizeof(i32) == 4 && sizeof(i64) == 8 && sizeof(u16) == 2);

} // namespace kiln

#if defined(__CUDACC__)

#define KILN_DEVICE __device__ __forceinline__
// See emulated.cuh.
#define KILN_EMULATED_NOTES_ACCESSES
#define KILN_EMULATED_CALLER nullptr

namespace kiln {

/// The place of a call of a primitive. On the GPU it is empty and costs nothing.
struct Site {
  KILN_DEVICE static constexpr Site current() { return {}; }
};

} // namespace kiln

#else

#define KILN_DEVICE inline
#define __global__
// Exported, so that the runtime finds the variable by its name.
#define __constant__ __attribute__((visibility("default")))
#define __device__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)

namespace kiln {

/// The place of a call of a primitive: the file and line for the emulator's errors. As a default argument of a
/// primitive, `Site::current()` gives the line of the call.
struct Site {
  const char *file = nullptr;
  u32 line = 0;

  static constexpr Site current(const char *file = __builtin_FILE(), u32 line = __builtin_LINE()) {
    return {file, line};
  }
  bool operator==(const Site &other) const {
    return line == other.line && (file == other.file || __builtin_strcmp(file, other.file) == 0);
  }
};

} // namespace kiln

#include "device/emulated.cuh"

#endif

namespace kiln {

template <class T> KILN_DEVICE constexpr T min(T a, T b) { return b < a ? b : a; }
template <class T> KILN_DEVICE constexpr T max(T a, T b) { return a < b ? b : a; }

/// a / b rounded up, for a >= 0 and b > 0.
template <class T> KILN_DEVICE constexpr T ceilDiv(T a, T b) { return (a + b - 1) / b; }

} // namespace kiln
