#include "ops/OpTable.h"

namespace kiln {

const OpTable &opTable() {
  static const OpTable table({
#define KILN_OP(identifier, mnemonic) &identifier##Op,
#include "ir/Ops.def"
  });
  return table;
}

} // namespace kiln
