// One small kernel per primitive; NumberPrimitives.cpp says what each must compute.
#include "device/device.cuh"

namespace kiln {

KILN_DEVICE u32 globalThread() { return blockIndexX() * blockThreads() + threadIndex(); }

//===----------------------------------------------------------------------===//
// numeric.cuh
//===----------------------------------------------------------------------===//

template <class T> KILN_DEVICE void roundTrip(const float *in, T *stored, float *back) {
  const u32 i = globalThread();
  stored[i] = fromFloat<T>(in[i]);
  back[i] = toFloat(stored[i]);
}
extern "C" __global__ void round_trip_bf16(const float *in, bf16 *stored, float *back) { roundTrip(in, stored, back); }
extern "C" __global__ void round_trip_f16(const float *in, f16 *stored, float *back) { roundTrip(in, stored, back); }

extern "C" __global__ void pairs(const float *in, u32 *bf16Words, u32 *f16Words, float *back) {
  bf16Words[0] = pairFromFloat<bf16>(in[0], in[1]);
  f16Words[0] = pairFromFloat<f16>(in[0], in[1]);
  back[0] = lowToFloat<bf16>(bf16Words[0]);
  back[1] = highToFloat<bf16>(bf16Words[0]);
  back[2] = lowToFloat<f16>(f16Words[0]);
  back[3] = highToFloat<f16>(f16Words[0]);
}

//===----------------------------------------------------------------------===//
// vec.cuh
//===----------------------------------------------------------------------===//

// A load of V elements by each way, and a store by each way, side by side for all widths.
template <class T> struct VectorStorage {
  alignas(16) T elements[8];
};
template <class T, int V> KILN_DEVICE void copyVectors(const T *in, T *out) {
  const Vec<float, V> plain = load<V>(in), streaming = loadStreaming<V>(in);
  T *shared = sharedStorage<VectorStorage<T>>().elements;
  storeShared(shared, plain);
  store(out, load<V>(shared));
  const T *nowhere = nullptr; // never read
  const auto some = loadPackedStreamingIf<V>(true, in), none = loadPackedStreamingIf<V>(false, nowhere);
  storeStreaming(out + 8, plain + streaming + none.unpack() - (some.unpack() - plain));
}
template <class T> KILN_DEVICE void copyAllWidths(const T *in, T *out) {
  copyVectors<T, 1>(in, out);
  copyVectors<T, 2>(in, out + 16);
  copyVectors<T, 4>(in, out + 32);
  copyVectors<T, 8>(in, out + 48);
}
extern "C" __global__ void copy_float(const float *in, float *out) { copyAllWidths(in, out); }
extern "C" __global__ void copy_bf16(const bf16 *in, bf16 *out) { copyAllWidths(in, out); }
extern "C" __global__ void copy_f16(const f16 *in, f16 *out) { copyAllWidths(in, out); }

extern "C" __global__ void arithmetic(const float *in, float *out) {
  const Vec<float, 4> a = load<4>(in), b = load<4>(in + 4);
  Vec<float, 4> sum = a, product = a;
  sum += b;
  product *= b;
  const Vec<float, 4> results[] = {a + b,
                                   a - b,
                                   a * b,
                                   a / b,
                                   a + 2.0f,
                                   a - 2.0f,
                                   a * 2.0f,
                                   a / 2.0f,
                                   2.0f + a,
                                   2.0f - a,
                                   2.0f * a,
                                   2.0f / a,
                                   sum,
                                   product,
                                   a.map([](float x) { return x * x; }),
                                   a.zip(b, [](float x, float y) { return x - 2.0f * y; })};
  for (int i = 0; i < 16; ++i)
    store(out + 4 * i, results[i]);
  out[64] = a.sum();
  out[65] = a.max();
}

//===----------------------------------------------------------------------===//
// math.cuh
//===----------------------------------------------------------------------===//

constexpr int kFunctions = 13;

// All functions of each input: as scalars in the first half of the output, as a Vec in the second.
extern "C" __global__ void functions(const float *in, float *out) {
  const u32 i = globalThread(), threads = gridBlocksX() * blockThreads();
  const float x = in[i];
  const float scalars[kFunctions] = {exp(x),      exp2(x),         log(x),        rsqrt(x),      tanh(x),
                                     erf(x),      fma(x, x, 0.5f), fmin(x, 0.5f), fmax(x, 0.5f), gelu_tanh(x),
                                     gelu_erf(x), relu(x),         reciprocal(x)};
  using V = Vec<float, 2>;
  const V v = V::fill(x), half = V::fill(0.5f);
  const V vectors[kFunctions] = {exp(v),      exp2(v),         log(v),        rsqrt(v),      tanh(v),
                                 erf(v),      fma(v, v, half), fmin(v, half), fmax(v, half), gelu_tanh(v),
                                 gelu_erf(v), relu(v),         reciprocal(v)};
  for (int f = 0; f < kFunctions; ++f) {
    out[f * threads + i] = scalars[f];
    out[(kFunctions + f) * threads + i] = vectors[f][1];
  }
}

// Likewise, of those that are less exact.
extern "C" __global__ void approximations(const float *in, float *out) {
  const u32 i = globalThread(), threads = gridBlocksX() * blockThreads();
  const float x = in[i];
  const Vec<float, 2> v = Vec<float, 2>::fill(x);
  out[i] = approximateTanh(x);
  out[threads + i] = gelu_tanh_bf16(x);
  out[2 * threads + i] = approximateTanh(v)[1];
  out[3 * threads + i] = gelu_tanh_bf16(v)[1];
}

extern "C" __global__ void infinities(float *out) {
  out[0] = infinity();
  out[1] = -infinity();
}

} // namespace kiln
