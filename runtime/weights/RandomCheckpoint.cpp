#include "runtime/weights/RandomCheckpoint.h"

#include "support/Diagnostic.h"
#include "support/Random.h"
#include "support/process/Parallel.h"

#include <cmath>

namespace kiln {

namespace {
struct Distribution {
  double mean = 0;
  double deviation = 0.02;
};
} // namespace

static Distribution distributionOf(StringRef name, int64_t layers) {
  if (!name.ends_with(".weight"))
    return {};
  auto [owner, weight] = name.rsplit('.');
  StringRef module = owner.rsplit('.').second.empty() ? owner : owner.rsplit('.').second;
  if (module.starts_with("ln_"))
    return {1, 0.02};
  if (module == "wpe")
    return {0, 0.01};
  if (module == "c_proj")
    return {0, 0.02 / std::sqrt(2.0 * static_cast<double>(layers))};
  return {};
}

/// The first 64 bits of the name's SHA-256: equal on every machine, and different for each tensor.
static std::pair<uint32_t, uint32_t> hashName(StringRef name) {
  llvm::SHA256 hash;
  hash.update(name);
  std::array<uint8_t, 32> digest = hash.final();
  auto word = [&](int at) {
    return static_cast<uint32_t>(digest[at] | digest[at + 1] << 8 | digest[at + 2] << 16) |
           static_cast<uint32_t>(digest[at + 3]) << 24;
  };
  return {word(0), word(4)};
}

Expected<TensorView> RandomCheckpoint::tensor(StringRef name, ArrayRef<int64_t> expectedShape) const {
  name.consume_front("transformer.");
  std::optional<int64_t> count = elementCount(expectedShape);
  constexpr int64_t maxCount = int64_t(1) << 40;
  if (!count || *count > maxCount)
    return makeError("tensor '" + name + "': expected at most 2^40 elements, got shape " + shapeString(expectedShape));
  // Left uninitialised: filling with zeros would add a quarter of the time.
  std::shared_ptr<float[]> elements(new float[*count]);
  Distribution distribution = distributionOf(name, layers);
  std::pair<uint32_t, uint32_t> hash = hashName(name);

  // A multiple of Philox's block that fits the first-level cache.
  constexpr int64_t chunk = 1 << 12;
  parallelFor((*count + chunk - 1) / chunk, [&](size_t index) {
    std::array<uint32_t, chunk> words;
    auto first = static_cast<int64_t>(index) * chunk;
    int64_t length = std::min(chunk, *count - first);
    for (int64_t i = 0; i < length; i += 4) {
      auto block = static_cast<uint64_t>(first + i) / 4;
      llvm::copy(
          philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), hash.first, hash.second}, seed),
          words.begin() + i);
    }
    MutableArrayRef<float> values(elements.get() + first, length);
    normalFloats(ArrayRef<uint32_t>(words).take_front(length), values);
    for (float &value : values)
      value = static_cast<float>(distribution.mean + distribution.deviation * value);
  });
  ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t *>(elements.get()), *count * sizeof(float));
  return TensorView{DType::F32, TensorShape(expectedShape), bytes, elements};
}

} // namespace kiln
