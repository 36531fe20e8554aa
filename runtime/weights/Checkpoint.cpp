#include "runtime/weights/Checkpoint.h"

#include "runtime/weights/ModelFileTensors.h"
#include "runtime/weights/Safetensors.h"
#include "support/Diagnostic.h"
#include "support/text/Json.h"

namespace kiln {

namespace fs = llvm::sys::fs;

/// Removes `transformer.` from a stored name.
static StringRef stripPrefix(StringRef storedName) {
  storedName.consume_front("transformer.");
  return storedName;
}

/// Whether a tensor is a causal mask stored as a buffer. The dots matter: `attn.c_attn.bias` is a weight.
static bool isMaskBuffer(StringRef name) { return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"); }

static std::string pathIn(StringRef directory, StringRef name) {
  SmallString<128> path(directory);
  llvm::sys::path::append(path, name);
  return path.str().str();
}

Error Checkpoint::add(std::shared_ptr<const TensorFile> file, StringRef storedName) {
  StringRef name = stripPrefix(storedName);
  if (isMaskBuffer(name))
    return Error::success();
  auto [known, isNew] = places.try_emplace(name.str(), Place{std::move(file), storedName.str()});
  if (isNew)
    return Error::success();
  return makeFileError(source, "tensor '" + name + "': expected it once, got it with and without the prefix " +
                                   "'transformer.'");
}

namespace {
/// The index of a checkpoint that consists of several files: it maps each tensor to its file.
struct ShardIndex {
  SourceManager sources;
  JsonObject weightMap;
  std::map<std::string, std::shared_ptr<const SafetensorsFile>> shards; ///< by file name
};
} // namespace

/// Reads `weight_map`. Error: not JSON, no such object, a repeated tensor, or a value that is not a plain file name.
static Error readIndex(StringRef path, ShardIndex &index) {
  Expected<const SourceFile *> file = index.sources.open(path);
  if (!file)
    return file.takeError();
  Expected<JsonObject> object = parseJsonObject(*file);
  if (!object)
    return object.takeError();
  auto member = llvm::find_if(object->members, [](const auto &m) { return m.key == "weight_map"; });
  if (member == object->members.end())
    return makeFileError(path, "expected an object 'weight_map', got none");
  Expected<JsonObject> weightMap = childObject(*object, *member);
  if (!weightMap)
    return weightMap.takeError();
  index.weightMap = std::move(*weightMap);
  StringSet<> seen;
  for (const JsonObject::Member &entry : index.weightMap.members) {
    if (!seen.insert(entry.key).second)
      return makeError(entry.keyLoc, "tensor '" + entry.key + "': expected it once, got it twice");
    std::optional<StringRef> shard = index.weightMap.values.getString(entry.key);
    // Shards lie beside their index. A path could make a downloaded index read other files of the machine.
    if (!shard || shard->empty() || shard->contains('/') || shard->contains('\\'))
      return makeError(entry.valueLoc, "tensor '" + entry.key + "': expected the name of a file beside the index");
    index.shards.try_emplace(shard->str());
  }
  return Error::success();
}

Error Checkpoint::addShards(StringRef directory) {
  ShardIndex index;
  if (Error error = readIndex(source, index))
    return error;
  for (auto &[name, shard] : index.shards) {
    auto file = SafetensorsFile::open(pathIn(directory, name));
    if (!file)
      return file.takeError();
    shard = std::move(*file);
  }
  for (const JsonObject::Member &entry : index.weightMap.members) {
    const auto &shard = index.shards[index.weightMap.values.getString(entry.key)->str()];
    if (!shard->tensors().contains(entry.key))
      return makeError(entry.valueLoc,
                       "tensor '" + entry.key + "': expected it in " + shard->path() + ", got none there");
    if (Error error = add(shard, entry.key))
      return error;
  }
  return Error::success();
}

/// The file of a directory that lists all tensors: the only one, or the index; empty if there is neither.
static std::string tensorListIn(StringRef directory) {
  for (StringRef name : {"model.safetensors", "model.safetensors.index.json"})
    if (std::string path = pathIn(directory, name); fs::exists(path))
      return path;
  return "";
}

static bool isIndex(StringRef tensorList) { return tensorList.ends_with(".index.json"); }

Error Checkpoint::addDirectory(StringRef directory) {
  source = tensorListIn(directory);
  if (source.empty()) {
    bool isPyTorch = fs::exists(pathIn(directory, "pytorch_model.bin"));
    return makeFileError(directory,
                         Twine("expected model.safetensors or model.safetensors.index.json, got ") +
                             (isPyTorch ? "pytorch_model.bin; convert it with tools/import_torch.py" : "neither"));
  }
  if (isIndex(source))
    return addShards(directory);
  auto file = SafetensorsFile::open(source);
  if (!file)
    return file.takeError();
  for (const auto &[name, entry] : (*file)->tensors())
    if (Error error = add(*file, name))
      return error;
  return Error::success();
}

Error Checkpoint::addModelFile(StringRef path) {
  source = path.str();
  Expected<std::shared_ptr<const ModelFile>> model = openModelFile(path);
  if (!model)
    return model.takeError();
  nameInFile = (*model)->nameInFile;
  auto file = std::make_shared<ModelFileTensors>(*model);
  for (const auto &[name, tensor] : (*model)->tensors)
    places.try_emplace(name, Place{file, tensor.name});
  return Error::success();
}

Expected<std::unique_ptr<Checkpoint>> Checkpoint::open(StringRef path) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint());
  if (Error error = isModelFile(path) ? checkpoint->addModelFile(path) : checkpoint->addDirectory(path))
    return error;
  return checkpoint;
}

Expected<std::vector<std::string>> checkpointFiles(StringRef path) {
  if (isModelFile(path))
    return std::vector<std::string>{path.str()};
  std::string list = tensorListIn(path);
  std::vector<std::string> files;
  if (!list.empty())
    files.push_back(list);
  if (!isIndex(list))
    return files;
  ShardIndex index;
  if (Error error = readIndex(list, index))
    return error;
  for (const auto &[name, shard] : index.shards)
    files.push_back(pathIn(path, name));
  return files;
}

bool Checkpoint::has(StringRef name) const { return places.contains(name); }

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> all;
  for (const auto &[name, place] : places)
    all.push_back(name);
  return all;
}

Error Checkpoint::expectTied(const Place &head) const {
  auto embedding = places.find("wte.weight");
  if (embedding != places.end()) {
    Expected<TensorView> own = head.file->tensor(head.storedName);
    if (!own)
      return own.takeError();
    Expected<TensorView> tied = embedding->second.file->tensor(embedding->second.storedName);
    if (!tied)
      return tied.takeError();
    if (own->dtype == tied->dtype && own->shape == tied->shape && own->bytes == tied->bytes)
      return Error::success();
  }
  return makeFileError(head.file->path(), "tensor '" + head.storedName +
                                              "': expected the bytes of 'wte.weight', to which the model ties it, got "
                                              "others; a model that uses it has tie_word_embeddings false");
}

Error Checkpoint::expectOnly(const StringSet<> &used) const {
  for (const auto &[name, place] : places) {
    if (used.contains(name))
      continue;
    if (name == "lm_head.weight") {
      if (Error error = expectTied(place))
        return error;
      continue;
    }
    StringRef hint = StringRef(name).starts_with("h.") ? "; the model may have fewer layers (n_layer) than this" : "";
    return makeFileError(place.file->path(), "tensor '" + place.storedName +
                                                 "': expected tensors of the model, got one that it does not have" +
                                                 hint);
  }
  return Error::success();
}

/// The place of a tensor of this shape.
Expected<const Checkpoint::Place *> Checkpoint::find(StringRef name, ArrayRef<int64_t> expectedShape) const {
  auto found = places.find(name);
  if (found == places.end()) {
    std::optional<std::string> known = nameInFile ? nameInFile(name) : std::nullopt;
    return makeFileError(source, "tensor '" + known.value_or(name.str()) + "': expected one of shape " +
                                     shapeString(expectedShape) + ", got none");
  }
  const Place &place = found->second;
  ArrayRef<int64_t> shape = place.file->shape(place.storedName);
  if (shape != expectedShape)
    return makeFileError(place.file->path(), "tensor '" + place.storedName + "': expected shape " +
                                                 shapeString(expectedShape) + ", got " + shapeString(shape));
  return &place;
}

Error Checkpoint::expect(StringRef name, ArrayRef<int64_t> shape) const {
  Expected<const Place *> place = find(name, shape);
  return place ? (*place)->file->check((*place)->storedName) : place.takeError();
}

Error Checkpoint::expectModel(ArrayRef<WeightRecipe::Tensor> tensors) const {
  StringSet<> used;
  for (const WeightRecipe::Tensor &tensor : tensors) {
    used.insert(tensor.name);
    if (Error error = expect(tensor.name, tensor.shape))
      return error;
  }
  return expectOnly(used);
}

Expected<TensorView> Checkpoint::tensor(StringRef name, ArrayRef<int64_t> shape) const {
  Expected<const Place *> place = find(name, shape);
  if (!place)
    return place.takeError();
  return (*place)->file->tensor((*place)->storedName);
}

} // namespace kiln
