// A checkpoint: the bytes of a model.safetensors, or, if the input begins with a brace, a model.safetensors.index.json
// for two existing files. Every tensor is packed: as it is, transposed and padded; errors name the file.
#include "Fuzz.h"

#include "runtime/weights/Checkpoint.h"
#include "runtime/weights/PackWeight.h"
#include "runtime/weights/Safetensors.h"

using namespace kiln;

namespace {

constexpr int64_t mostBytes = 1 << 20; ///< limit on packing, since a tensor without elements may be padded to any size

std::vector<uint8_t> pack(const WeightRecipe &recipe, const TensorView &source) {
  Expected<int64_t> size = packedSize(recipe);
  if (!size) {
    llvm::consumeError(size.takeError());
    return {};
  }
  if (*size > mostBytes)
    return {};
  std::vector<uint8_t> packed(*size);
  cantFail(packWeight(recipe, source, packed));
  return packed;
}

void packAsIs(WeightRecipe recipe, const TensorView &source) {
  recipe.dtype = source.dtype;
  std::vector<uint8_t> packed = pack(recipe, source);
  require(packed.empty() || ArrayRef(packed) == source.bytes, "a tensor that is packed otherwise than it is");
  for (DType dtype : {DType::F32, DType::F16, DType::BF16}) {
    recipe.dtype = dtype;
    pack(recipe, source);
  }
}

void packTransposed(WeightRecipe recipe, const TensorView &source) {
  recipe.dtype = source.dtype;
  recipe.transpose = true;
  recipe.shape = {source.shape[1], source.shape[0]};
  std::vector<uint8_t> packed = pack(recipe, source);
  std::swap(recipe.shape, recipe.sourceShape);
  std::vector<uint8_t> again = pack(recipe, {source.dtype, recipe.sourceShape, packed, nullptr});
  require(again.empty() || ArrayRef(again) == source.bytes, "a tensor that is not itself when transposed twice");
}

void packPadded(WeightRecipe recipe, const TensorView &source) {
  recipe.pad = true;
  for (int64_t &extent : recipe.shape)
    if (extent < mostBytes)
      extent += 3;
  pack(recipe, source);
}

void packTensor(StringRef name, const TensorView &source) {
  WeightRecipe recipe{.source = name.str(), .sourceShape = source.shape, .shape = source.shape, .dtype = DType::F32};
  packAsIs(recipe, source);
  packPadded(recipe, source);
  if (source.shape.size() == 2 && static_cast<int64_t>(source.bytes.size()) <= mostBytes)
    packTransposed(recipe, source);
}

/// A file with two tensors, for the index to name.
std::string shard() {
  std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                       R"("transformer.b":{"dtype":"F16","shape":[1,2],"data_offsets":[8,12]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + std::string(12, '\x3c');
}

void readTensors(StringRef path) {
  Expected<std::shared_ptr<const SafetensorsFile>> file = SafetensorsFile::open(path);
  if (!file) {
    requireFile(file.takeError());
    return;
  }
  for (const auto &[name, entry] : (*file)->tensors()) {
    Expected<TensorView> tensor = (*file)->tensor(name);
    if (tensor)
      packTensor(name, *tensor);
    else
      requireFile(tensor.takeError());
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const FuzzDirectory directory;
  static const bool hasShards = (directory.write("1.safetensors", shard()), directory.write("2", shard()), true);
  require(hasShards, "no shards");
  StringRef bytes = inputText(data, size);
  std::string single = directory.path("model.safetensors");
  if (bytes.starts_with("{")) {
    llvm::sys::fs::remove(single);
    directory.write("model.safetensors.index.json", bytes);
  } else {
    directory.write("model.safetensors", bytes);
    readTensors(single);
  }
  Expected<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::open(directory.path());
  if (!checkpoint)
    return requireFile(checkpoint.takeError());
  for (const std::string &name : (*checkpoint)->names())
    llvm::consumeError((*checkpoint)->tensor(name, {2}).takeError());
  return 0;
}
