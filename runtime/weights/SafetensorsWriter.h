//===- SafetensorsWriter.h - the header of a safetensors file ----------------===//
#pragma once

#include "runtime/weights/WeightSource.h"

namespace kiln {

struct SafetensorsItem {
  std::string name;
  DType dtype;
  TensorShape shape;
};

/// Puts tensors in an order in which each is aligned to its elements, as readers that map the file want it.
void sortForSafetensors(std::vector<SafetensorsItem> &items);

/// The bytes in front of the tensors' data, which follow in this order without anything between them.
std::string safetensorsHeader(ArrayRef<SafetensorsItem> items);

} // namespace kiln
