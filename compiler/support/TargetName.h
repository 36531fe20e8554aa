//===- TargetName.h - what the name of a target says -----------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// The compute capability of a target: 90 for sm_90a; 0 if the name is of another form.
inline int computeCapability(StringRef target) {
  int value = 0;
  if (target.consume_front("sm_"))
    target.take_while(llvm::isDigit).getAsInteger(10, value);
  return value;
}

} // namespace kiln
