#include "ops/DeviceForm.h"

namespace kiln {

static std::string parenthesised(StringRef a) { return a.contains(' ') ? ("(" + a + ")").str() : a.str(); }

std::string times(StringRef a, int64_t b) {
  if (a == "0" || b == 1)
    return a.str();
  return parenthesised(a) + " * " + std::to_string(b);
}

std::string plus(StringRef a, StringRef b) {
  if (a == "0")
    return b.str();
  return b == "0" ? a.str() : (a + " + " + b).str();
}

std::string minus(StringRef a, int64_t b) { return b == 0 ? a.str() : (a + " - " + Twine(b)).str(); }

} // namespace kiln
