#include "ir/OpDef.h"

namespace kiln {

const OpDef *OpTable::find(StringRef mnemonic) const {
  auto it = llvm::find_if(records, [&](const OpDef *def) { return def->mnemonic == mnemonic; });
  return it == records.end() ? nullptr : *it;
}

ArrayRef<AttributeSpec> commonAttributes() {
  static const std::vector<AttributeSpec> specs = {
      {"kernel", Attribute::Kind::Ident, "kernel template that runs this op (select-kernels)", false},
      {"tile", Attribute::Kind::Dict, "configuration of the kernel template (choose-tiles)", false},
      {"variants", Attribute::Kind::List, "kernel and tile for up to so many rows, few first (choose-tiles)", false},
      {"constants", Attribute::Kind::List, "weights that the kernel has in constant memory (place-parameters)", false},
      {"offsets", Attribute::Kind::List, "arena offset of each result in bytes (plan-memory)", false},
      {"workspace", Attribute::Kind::Text, "arena offset of the kernel's scratch in bytes (plan-memory)", false},
  };
  return specs;
}

} // namespace kiln
