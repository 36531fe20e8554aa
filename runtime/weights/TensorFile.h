//===- TensorFile.h - the interface of files that hold tensors ----------------===//
#pragma once

#include "runtime/weights/WeightSource.h"

namespace kiln {

/// Tensors by the names that the file gives them.
class TensorFile {
public:
  virtual ~TensorFile() = default;

  virtual const std::string &path() const = 0;

  /// The shape of a tensor, which must exist.
  virtual ArrayRef<int64_t> shape(StringRef name) const = 0;

  /// Checks that tensor() will give this one, without reading it.
  virtual Error check(StringRef name) const = 0;

  /// A tensor of floats; its bytes keep what they are in alive. Error: no such tensor, or no floats.
  virtual Expected<TensorView> tensor(StringRef name) const = 0;
};

} // namespace kiln
