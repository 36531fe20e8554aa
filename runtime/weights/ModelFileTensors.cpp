#include "runtime/weights/ModelFileTensors.h"

#include "support/Diagnostic.h"
#include "support/process/Parallel.h"

namespace kiln {

ModelFileTensors::ModelFileTensors(std::shared_ptr<const ModelFile> model) : model(std::move(model)) {
  for (const auto &[name, tensor] : this->model->tensors)
    byName[tensor.name] = &tensor;
}

Error ModelFileTensors::check(StringRef name) const {
  if (byName.contains(name))
    return Error::success();
  return makeFileError(path(), "tensor '" + name + "': expected it in this file, got none");
}

/// Unpacks blocks of Q8_0: an f16 factor, then an i8 for each element. The products are exact in f32: 11 bits times 8.
static std::shared_ptr<std::vector<float>> unpackQ8(ArrayRef<uint8_t> bytes) {
  size_t blocks = bytes.size() / q8BlockBytes;
  auto values = std::make_shared<std::vector<float>>(blocks * q8BlockElements);
  constexpr size_t grain = 4096;
  parallelFor((blocks + grain - 1) / grain, [&](size_t range) {
    for (size_t block = range * grain; block < std::min(blocks, (range + 1) * grain); ++block) {
      const uint8_t *from = bytes.data() + block * q8BlockBytes;
      uint16_t bits;
      std::memcpy(&bits, from, sizeof bits);
      float factor = fromF16(bits);
      for (int64_t i = 0; i < q8BlockElements; ++i)
        (*values)[block * q8BlockElements + i] = factor * static_cast<int8_t>(from[sizeof bits + i]);
    }
  });
  return values;
}

Expected<TensorView> ModelFileTensors::tensor(StringRef name) const {
  if (Error error = check(name))
    return error;
  const StoredTensor &stored = *byName.lookup(name);
  TensorView view{dtypeOf(stored.type), stored.shape, stored.bytes, model, stored.isTransposed};
  if (stored.type == StoredType::Q8) {
    std::shared_ptr<std::vector<float>> values = unpackQ8(stored.bytes);
    view.bytes = {reinterpret_cast<const uint8_t *>(values->data()), values->size() * sizeof(float)};
    view.owner = values;
  }
  return view;
}

} // namespace kiln
