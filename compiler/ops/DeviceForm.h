//===- DeviceForm.h - the form of an op in generated CUDA -----------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

class Value;

/// Where an element lies, as C++ expressions over the variables of a generated functor. Layout ops rewrite it.
struct Coordinates {
  /// One expression per dim of the tensor.
  SmallVector<std::string, 4> index;
  /// The flattened index over all dims but the last, while it is still a plain variable; then empty.
  std::string row;
  /// Conditions under which the element exists.
  SmallVector<std::string, 2> guards;
  /// Variables that hold which of its parts the last dim's element lies in, and its index in that part, if there are
  /// such; the guards then tell parts apart.
  std::string part, inPart;
  /// The expression for an element of another operand of rank 1 (positions, lengths), given its index.
  std::function<std::string(const Value &, StringRef index)> elementOf;

  StringRef last() const { return index.back(); }
};

/// `a * b`, `a + b`, `a - b` as text, with zeros and ones folded away.
std::string times(StringRef a, int64_t b);
std::string plus(StringRef a, StringRef b);
std::string minus(StringRef a, int64_t b);

} // namespace kiln
