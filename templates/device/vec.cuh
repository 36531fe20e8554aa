//===- vec.cuh - short vectors and vector memory access ----------------------===//
//
// A Vec is held in registers. `load` and its variants read V elements of float, bf16 or f16 by one access of V *
// sizeof(T) bytes (2, 4, 8 or 16; 32 bytes take two) and convert them to float; `store` converts back. The address must
// be aligned to the access: a misaligned one is an error of the emulator and a fault on the GPU.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/numeric.cuh"

namespace kiln {

/// V elements (1, 2, 4 or 8) for element-wise arithmetic.
template <class T, int V> struct Vec {
  static_assert(V == 1 || V == 2 || V == 4 || V == 8);

  T data[V];

  KILN_DEVICE T &operator[](int i) { return data[i]; }
  KILN_DEVICE const T &operator[](int i) const { return data[i]; }

  /// A vector with every element set to `value`.
  KILN_DEVICE static Vec fill(T value) {
    Vec result;
#pragma unroll
    for (int i = 0; i < V; ++i)
      result[i] = value;
    return result;
  }

  /// The vector of f of every element.
  template <class F> KILN_DEVICE auto map(F f) const {
    Vec<decltype(f(data[0])), V> result;
#pragma unroll
    for (int i = 0; i < V; ++i)
      result[i] = f(data[i]);
    return result;
  }

  /// The vector of f of each element and the other's at the same place.
  template <class F> KILN_DEVICE auto zip(const Vec &other, F f) const {
    Vec<decltype(f(data[0], data[0])), V> result;
#pragma unroll
    for (int i = 0; i < V; ++i)
      result[i] = f(data[i], other[i]);
    return result;
  }

  /// f(...f(f(data[0], data[1]), data[2])..., data[V - 1]).
  template <class F> KILN_DEVICE T reduce(F f) const {
    T result = data[0];
#pragma unroll
    for (int i = 1; i < V; ++i)
      result = f(result, data[i]);
    return result;
  }

  /// The sum of the elements from left to right, and their maximum.
  KILN_DEVICE T sum() const {
    return reduce([](T a, T b) { return a + b; });
  }
  KILN_DEVICE T max() const {
    return reduce([](T a, T b) { return a < b ? b : a; });
  }

  KILN_DEVICE Vec &operator+=(const Vec &other) { return *this = *this + other; }
  KILN_DEVICE Vec &operator*=(const Vec &other) { return *this = *this * other; }

  KILN_DEVICE friend Vec operator+(const Vec &a, const Vec &b) {
    return a.zip(b, [](T x, T y) { return x + y; });
  }
  KILN_DEVICE friend Vec operator-(const Vec &a, const Vec &b) {
    return a.zip(b, [](T x, T y) { return x - y; });
  }
  KILN_DEVICE friend Vec operator*(const Vec &a, const Vec &b) {
    return a.zip(b, [](T x, T y) { return x * y; });
  }
  KILN_DEVICE friend Vec operator/(const Vec &a, const Vec &b) {
    return a.zip(b, [](T x, T y) { return x / y; });
  }
  KILN_DEVICE friend Vec operator+(const Vec &a, T b) { return a + fill(b); }
  KILN_DEVICE friend Vec operator-(const Vec &a, T b) { return a - fill(b); }
  KILN_DEVICE friend Vec operator*(const Vec &a, T b) { return a * fill(b); }
  KILN_DEVICE friend Vec operator/(const Vec &a, T b) { return a / fill(b); }
  KILN_DEVICE friend Vec operator+(T a, const Vec &b) { return fill(a) + b; }
  KILN_DEVICE friend Vec operator-(T a, const Vec &b) { return fill(a) - b; }
  KILN_DEVICE friend Vec operator*(T a, const Vec &b) { return fill(a) * b; }
  KILN_DEVICE friend Vec operator/(T a, const Vec &b) { return fill(a) / b; }
};

/// The unit of one memory access: 2, 4, 8 or 16 bytes.
template <int kBytes> struct alignas(kBytes) Packet {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  u32 words[kBytes / 4];
};
template <> struct alignas(2) Packet<2> {
  u16 half;
};

#if defined(__CUDACC__)

/// An ordinary access to any memory; stores are to shared memory. It uses CUDA's own vector types, because the copy of
/// a struct may become several instructions.
struct PlainAccess {
  KILN_DEVICE static Packet<2> read(const void *source, Packet<2>) { return {*static_cast<const u16 *>(source)}; }
  KILN_DEVICE static Packet<4> read(const void *source, Packet<4>) { return {*static_cast<const u32 *>(source)}; }
  KILN_DEVICE static Packet<8> read(const void *source, Packet<8>) {
    return bitCast<Packet<8>>(*static_cast<const uint2 *>(source));
  }
  KILN_DEVICE static Packet<16> read(const void *source, Packet<16>) {
    return bitCast<Packet<16>>(*static_cast<const uint4 *>(source));
  }
  template <int kBytes> KILN_DEVICE static Packet<kBytes> load(const void *source, Site) {
    return read(source, Packet<kBytes>{});
  }

  KILN_DEVICE static void store(void *target, Packet<2> packet, Site) { *static_cast<u16 *>(target) = packet.half; }
  KILN_DEVICE static void store(void *target, Packet<4> packet, Site) { *static_cast<u32 *>(target) = packet.words[0]; }
  KILN_DEVICE static void store(void *target, Packet<8> packet, Site) {
    *static_cast<uint2 *>(target) = bitCast<uint2>(packet);
  }
  KILN_DEVICE static void store(void *target, Packet<16> packet, Site) {
    *static_cast<uint4 *>(target) = bitCast<uint4>(packet);
  }
};

/// Stores to global memory. The instruction is written in PTX, because the compiler may split an ordinary store of 16
/// bytes into four.
struct GlobalAccess {
  KILN_DEVICE static void store(void *target, Packet<2> packet, Site) {
    asm volatile("st.global.b16 [%0], %1;" ::"l"(target), "h"(packet.half) : "memory");
  }
  KILN_DEVICE static void store(void *target, Packet<4> packet, Site) {
    asm volatile("st.global.b32 [%0], %1;" ::"l"(target), "r"(packet.words[0]) : "memory");
  }
  KILN_DEVICE static void store(void *target, Packet<8> packet, Site) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(target), "r"(packet.words[0]), "r"(packet.words[1])
                 : "memory");
  }
  KILN_DEVICE static void store(void *target, Packet<16> packet, Site) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(target), "r"(packet.words[0]), "r"(packet.words[1]),
                 "r"(packet.words[2]), "r"(packet.words[3])
                 : "memory");
  }
};

/// Global memory that is read or written once: loads do not enter L1, and stores are evicted first. Loads are volatile,
/// so that none crosses waitForDependencies(). They do not use the non-coherent path (.nc): ptxas would move such loads
/// after the wait, and they may miss the writes of an earlier kernel.
struct StreamingAccess {
  KILN_DEVICE static Packet<2> read(const void *source, Packet<2> packet) {
    asm volatile("ld.global.L1::no_allocate.b16 %0, [%1];" : "=h"(packet.half) : "l"(source));
    return packet;
  }
  KILN_DEVICE static Packet<4> read(const void *source, Packet<4> packet) {
    asm volatile("ld.global.L1::no_allocate.b32 %0, [%1];" : "=r"(packet.words[0]) : "l"(source));
    return packet;
  }
  KILN_DEVICE static Packet<8> read(const void *source, Packet<8> packet) {
    asm volatile("ld.global.L1::no_allocate.v2.b32 {%0, %1}, [%2];"
                 : "=r"(packet.words[0]), "=r"(packet.words[1])
                 : "l"(source));
    return packet;
  }
  KILN_DEVICE static Packet<16> read(const void *source, Packet<16> packet) {
    asm volatile("ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(packet.words[0]), "=r"(packet.words[1]), "=r"(packet.words[2]), "=r"(packet.words[3])
                 : "l"(source));
    return packet;
  }
  template <int kBytes> KILN_DEVICE static Packet<kBytes> load(const void *source, Site) {
    return read(source, Packet<kBytes>{});
  }

  KILN_DEVICE static Packet<2> readIf(bool condition, const void *source, Packet<2> packet) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\nmov.b16 %0, 0;\n"
                 "@p ld.global.L1::no_allocate.b16 %0, [%1];\n}"
                 : "=&h"(packet.half)
                 : "l"(source), "r"(u32(condition)));
    return packet;
  }
  KILN_DEVICE static Packet<4> readIf(bool condition, const void *source, Packet<4> packet) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\nmov.b32 %0, 0;\n"
                 "@p ld.global.L1::no_allocate.b32 %0, [%1];\n}"
                 : "=&r"(packet.words[0])
                 : "l"(source), "r"(u32(condition)));
    return packet;
  }
  KILN_DEVICE static Packet<8> readIf(bool condition, const void *source, Packet<8> packet) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %3, 0;\nmov.b32 %0, 0;\nmov.b32 %1, 0;\n"
                 "@p ld.global.L1::no_allocate.v2.b32 {%0, %1}, [%2];\n}"
                 : "=&r"(packet.words[0]), "=&r"(packet.words[1])
                 : "l"(source), "r"(u32(condition)));
    return packet;
  }
  KILN_DEVICE static Packet<16> readIf(bool condition, const void *source, Packet<16> packet) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %5, 0;\n"
                 "mov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
                 "@p ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
                 : "=&r"(packet.words[0]), "=&r"(packet.words[1]), "=&r"(packet.words[2]), "=&r"(packet.words[3])
                 : "l"(source), "r"(u32(condition)));
    return packet;
  }
  /// `source` plus an offset in bytes. If the condition does not hold, any pointer, even null.
  template <int kBytes>
  KILN_DEVICE static Packet<kBytes> loadIf(bool condition, const void *source, u32 offset, Site) {
    return readIf(condition, static_cast<const u8 *>(source) + offset, Packet<kBytes>{});
  }

  KILN_DEVICE static void store(void *target, Packet<2> packet, Site) {
    asm volatile("st.global.cs.b16 [%0], %1;" ::"l"(target), "h"(packet.half) : "memory");
  }
  KILN_DEVICE static void store(void *target, Packet<4> packet, Site) {
    asm volatile("st.global.cs.b32 [%0], %1;" ::"l"(target), "r"(packet.words[0]) : "memory");
  }
  KILN_DEVICE static void store(void *target, Packet<8> packet, Site) {
    asm volatile("st.global.cs.v2.b32 [%0], {%1, %2};" ::"l"(target), "r"(packet.words[0]), "r"(packet.words[1])
                 : "memory");
  }
  KILN_DEVICE static void store(void *target, Packet<16> packet, Site) {
    asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(target), "r"(packet.words[0]),
                 "r"(packet.words[1]), "r"(packet.words[2]), "r"(packet.words[3])
                 : "memory");
  }
};

#else

struct PlainAccess {
  template <int kBytes> KILN_DEVICE static Packet<kBytes> load(const void *source, Site site) {
    emulatedCheckAligned(source, kBytes, site);
    Packet<kBytes> packet;
    __builtin_memcpy(&packet, source, kBytes);
    return packet;
  }
  template <int kBytes>
  KILN_DEVICE static Packet<kBytes> loadIf(bool condition, const void *source, u32 offset, Site site) {
    return condition ? load<kBytes>(static_cast<const u8 *>(source) + offset, site) : Packet<kBytes>{};
  }
  template <int kBytes> KILN_DEVICE static void store(void *target, Packet<kBytes> packet, Site site) {
    emulatedCheckAligned(target, kBytes, site);
    __builtin_memcpy(target, &packet, kBytes);
  }
};
using GlobalAccess = PlainAccess;
using StreamingAccess = PlainAccess;

#endif

/// The bytes of one access that moves V elements of T or a part of them, and the number of elements that it moves.
template <class T, int V> constexpr int kAccessBytes = min<int>(sizeof(T) * V, 16);
template <class T, int V> constexpr int kAccessElements = kAccessBytes<T, V> / int(sizeof(T));

/// The i-th element of a packet of T, as a float.
template <class T, int kBytes> KILN_DEVICE float packetElement(const Packet<kBytes> &packet, int i) {
  if constexpr (sizeof(T) == 4)
    return bitCast<float>(packet.words[i]);
  else if constexpr (kBytes == 2)
    return float(T{packet.half});
  else
    return i % 2 == 0 ? lowToFloat<T>(packet.words[i / 2]) : highToFloat<T>(packet.words[i / 2]);
}

/// A packet of the floats at `values`, converted to T.
template <class T, int kBytes> KILN_DEVICE Packet<kBytes> makePacket(const float *values) {
  Packet<kBytes> packet;
  if constexpr (kBytes == 2) {
    packet.half = fromFloat<T>(values[0]).bits;
  } else {
#pragma unroll
    for (int i = 0; i < kBytes / 4; ++i) {
      if constexpr (sizeof(T) == 4)
        packet.words[i] = bitCast<u32>(values[i]);
      else
        packet.words[i] = pairFromFloat<T>(values[2 * i], values[2 * i + 1]);
    }
  }
  return packet;
}

/// V elements of T in their memory format, for loads that are issued long before the values are used: until then,
/// 16-bit elements take half the registers of a Vec<float, V>.
template <class T, int V> struct Packed {
  static constexpr int kElements = kAccessElements<T, V>;
  Packet<kAccessBytes<T, V>> packets[V / kElements];

  KILN_DEVICE Vec<float, V> unpack() const {
    Vec<float, V> result;
#pragma unroll
    for (int i = 0; i < V; ++i)
      result[i] = packetElement<T>(packets[i / kElements], i % kElements);
    return result;
  }
};

/// The values converted to T.
template <class T, int V> KILN_DEVICE Packed<T, V> pack(const Vec<float, V> &values) {
  Packed<T, V> result;
#pragma unroll
  for (int first = 0; first < V; first += kAccessElements<T, V>)
    result.packets[first / kAccessElements<T, V>] = makePacket<T, kAccessBytes<T, V>>(&values[first]);
  return result;
}

/// The values as T has them.
template <class T, int V> KILN_DEVICE Vec<float, V> rounded(const Vec<float, V> &values) {
  return pack<T>(values).unpack();
}

template <class Access, int V, class T> KILN_DEVICE Packed<T, V> loadPackedWith(const T *source, Site site) {
  Packed<T, V> result;
#pragma unroll
  for (int first = 0; first < V; first += result.kElements)
    result.packets[first / result.kElements] = Access::template load<kAccessBytes<T, V>>(source + first, site);
  return result;
}

template <class Access, int V, class T> KILN_DEVICE Vec<float, V> loadWith(const T *source, Site site) {
  return loadPackedWith<Access, V>(source, site).unpack();
}

template <class Access, int V, class T>
KILN_DEVICE void storeWith(T *target, const Vec<float, V> &values, Site site) {
  constexpr int kElements = kAccessElements<T, V>;
#pragma unroll
  for (int first = 0; first < V; first += kElements)
    Access::store(target + first, makePacket<T, kAccessBytes<T, V>>(values.data + first), site);
}

/// Loads V elements from any memory.
template <int V, class T> KILN_DEVICE Vec<float, V> load(const T *source, Site site = Site::current()) {
  return loadWith<PlainAccess, V>(source, site);
}
/// Loads V elements from global memory that is read once and that this kernel does not write: they do not enter L1.
/// Like every load of this file, it does not move across waitForDependencies().
template <int V, class T>
KILN_DEVICE Vec<float, V> loadStreaming(const T *source, Site site = Site::current()) {
  return loadWith<StreamingAccess, V>(source, site);
}

/// Like load, but converts later.
template <int V, class T>
KILN_DEVICE Packed<T, V> loadPacked(const T *source, Site site = Site::current()) {
  return loadPackedWith<PlainAccess, V>(source, site);
}
/// Like loadStreaming if `condition` holds, else zeros; converts later. It is one predicated instruction, which suits
/// many loads in flight: a branch around a load would limit the compiler's scheduling.
template <int V, class T>
KILN_DEVICE Packed<T, V> loadPackedStreamingIf(bool condition, const T *source, Site site = Site::current()) {
  Packed<T, V> result;
#pragma unroll
  for (int first = 0; first < V; first += result.kElements)
    result.packets[first / result.kElements] =
        StreamingAccess::loadIf<kAccessBytes<T, V>>(condition, source, first * u32(sizeof(T)), site);
  return result;
}

/// Writes V elements to global memory.
template <class T, int V> KILN_DEVICE void store(T *target, const Vec<float, V> &values, Site site = Site::current()) {
  storeWith<GlobalAccess>(target, values, site);
}
/// Writes V elements to shared memory.
template <class T, int V>
KILN_DEVICE void storeShared(T *target, const Vec<float, V> &values, Site site = Site::current()) {
  storeWith<PlainAccess>(target, values, site);
}
/// Writes V elements to global memory that is not read again soon.
template <class T, int V>
KILN_DEVICE void storeStreaming(T *target, const Vec<float, V> &values, Site site = Site::current()) {
  storeWith<StreamingAccess>(target, values, site);
}

} // namespace kiln
