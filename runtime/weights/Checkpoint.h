//===- Checkpoint.h - the weights that a model is stored with ------------------===//
#pragma once

#include "runtime/weights/TensorFile.h"

namespace kiln {

/// A directory with `model.safetensors`, or with `model.safetensors.index.json` and the shards it names; or a model in
/// one file, as openModelFile opens it. Tensor names of a directory may carry the prefix `transformer.`; the buffers
/// `*.attn.bias` and `*.attn.masked_bias` (causal masks that old versions stored) are left out.
class Checkpoint : public WeightSource {
public:
  /// Opens and checks every file. Error: as of SafetensorsFile::open and openModelFile; no such files; an index that
  /// is malformed, names a shard that is missing, or a tensor that its shard does not hold.
  static Expected<std::unique_ptr<Checkpoint>> open(StringRef path);

  bool has(StringRef name) const override;
  Expected<TensorView> tensor(StringRef name, ArrayRef<int64_t> expectedShape) const override;

  /// Checks that tensor() will give such a tensor, without reading it. Error: as of tensor().
  Error expect(StringRef name, ArrayRef<int64_t> shape) const;

  /// All names, without prefix.
  std::vector<std::string> names() const;

  /// Checks that the checkpoint is that of a model with these tensors, without reading it. Error: as of expect(); as of
  /// expectOnly().
  Error expectModel(ArrayRef<WeightRecipe::Tensor> tensors) const;

  /// Checks that the model and its checkpoint fit; `used` are the names of all tensors that the model takes. Error: any
  /// other tensor, except an `lm_head.weight` that equals `wte.weight` bit for bit, as tied weights are stored.
  Error expectOnly(const StringSet<> &used) const;

private:
  struct Place {
    std::shared_ptr<const TensorFile> file;
    std::string storedName;
  };

  Checkpoint() = default;

  Expected<const Place *> find(StringRef name, ArrayRef<int64_t> shape) const;
  Error add(std::shared_ptr<const TensorFile> file, StringRef storedName);
  Error addShards(StringRef directory);
  Error expectTied(const Place &head) const;

  Error addModelFile(StringRef path);
  Error addDirectory(StringRef directory);

  std::optional<std::string> (*nameInFile)(StringRef name) = nullptr; ///< as ModelFile::nameInFile
  std::string source; ///< the file that lists all tensors: the only one, or the index
  std::map<std::string, Place, std::less<>> places;
};

/// The files that hold the checkpoint of a path, as Checkpoint::open takes it: an index comes before its shards. Looks
/// at no tensors; a shard may be missing. Empty if there is no checkpoint. Error: a malformed index.
Expected<std::vector<std::string>> checkpointFiles(StringRef path);

} // namespace kiln
