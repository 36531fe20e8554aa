#include "runtime/device/Device.h"

#include "support/Diagnostic.h"

namespace kiln {

Error wrongConstant(StringRef kernel, StringRef name, int64_t bytes) {
  return makeError("kernel " + kernel + ": expected an array '" + name + "' of " + Twine(bytes) +
                   " bytes in constant memory, found none");
}

} // namespace kiln
