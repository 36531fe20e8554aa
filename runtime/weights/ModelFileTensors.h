//===- ModelFileTensors.h - the tensors of a model in one file ----------------===//
#pragma once

#include "formats/ModelFile.h"
#include "runtime/weights/TensorFile.h"

namespace kiln {

/// The tensors of a ModelFile, by their names in it. Views of F32, F16 and BF16 are the file's own bytes. Q8_0 is
/// unpacked to F32, which holds every value of it exactly; each view then owns its bytes.
class ModelFileTensors : public TensorFile {
public:
  explicit ModelFileTensors(std::shared_ptr<const ModelFile> model);

  const std::string &path() const override { return model->path; }
  ArrayRef<int64_t> shape(StringRef name) const override { return byName.lookup(name)->shape; }
  Error check(StringRef name) const override;
  Expected<TensorView> tensor(StringRef name) const override;

private:
  std::shared_ptr<const ModelFile> model;
  StringMap<const StoredTensor *> byName;
};

} // namespace kiln
