#include "Bindings.h"

namespace kiln::python {

std::vector<KilnTokens> tokensOf(const std::vector<Ids> &prompts) {
  std::vector<KilnTokens> tokens;
  for (const Ids &prompt : prompts)
    tokens.push_back(tokensOf(prompt));
  return tokens;
}

/// Gives the values to an array of this shape.
template <class Array, class Element>
static Array give(std::vector<Element> values, std::initializer_list<size_t> shape) {
  auto kept = std::make_unique<std::vector<Element>>(std::move(values));
  Element *data = kept->data();
  nb::capsule owner(kept.get(), [](void *memory) noexcept { delete static_cast<std::vector<Element> *>(memory); });
  kept.release();
  return Array(data, shape, owner);
}

IdArray toArray(std::vector<int32_t> values) {
  size_t size = values.size();
  return give<IdArray>(std::move(values), {size});
}

FloatVector toArray(std::vector<float> values) {
  size_t size = values.size();
  return give<FloatVector>(std::move(values), {size});
}

DoubleVector toArray(std::vector<double> values) {
  size_t size = values.size();
  return give<DoubleVector>(std::move(values), {size});
}

FloatMatrix toMatrix(std::vector<float> values, size_t cols) {
  size_t rows = values.size() / cols;
  return give<FloatMatrix>(std::move(values), {rows, cols});
}

} // namespace kiln::python
