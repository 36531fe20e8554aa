#include "tools/session/KeptWeights.h"

namespace kiln {

Expected<TensorView> KeptWeights::tensor(StringRef name, ArrayRef<int64_t> shape) const {
  std::string key = name.str() + shapeString(shape);
  std::lock_guard lock(mutex);
  if (auto it = kept.find(key); it != kept.end())
    return it->second;
  Expected<TensorView> made = source->tensor(name, shape);
  if (made)
    kept.insert_or_assign(std::move(key), *made);
  return made;
}

} // namespace kiln
