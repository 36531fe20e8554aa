//===- Variant.h - a kernel of these tests with other constants -----------------===//
//
// Each .cu file beside the tests is one kernel in the style of the code generator, and represents a family: a test
// replaces constants of its Config, and its element type, as the generator would write them. Functors that several
// kernels share are in functors/, and are copied into each kernel that includes them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/model/DType.h"

namespace kiln {

class Variant {
public:
  /// Kernel `name` of FOLDER/NAME.cu beside these tests, with replaced `constants`: `{"kCols", "96"}`. Every constant
  /// must exist in the file's Config.
  Variant(StringRef folder, StringRef name, DType element, std::map<std::string, std::string> constants = {});

  /// The same kernel with further constants replaced.
  Variant with(const std::map<std::string, std::string> &constants) const;

  const std::string &name() const { return kernel; }
  DType element() const { return type; }

  /// The kernel's source.
  const std::string &text() const { return source; }

  /// A constant of Config as a number; `true` is 1.
  int operator[](StringRef constant) const;

  /// The element type and the replaced constants, for messages and test names.
  std::string label() const;

private:
  std::string folder, kernel;
  DType type;
  std::map<std::string, std::string> replaced;
  std::string source;
};

/// Lets googletest name a case.
inline void PrintTo(const Variant &kernel, std::ostream *os) { *os << kernel.label(); }

} // namespace kiln
