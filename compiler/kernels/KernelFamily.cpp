#include "kernels/KernelFamily.h"

#include "kernels/Families.h"

namespace kiln {

ArrayRef<const KernelFamily *> allKernelFamilies() {
  static const std::vector<const KernelFamily *> families = {
      &simtRowsFamily,  &simtTiledFamily, &simtBatchedFamily, &simtSplitKvFamily,
      &simtFlashFamily, &layerNormFamily, &softmaxFamily,     &mapFamily,
  };
  return families;
}

const KernelFamily *findKernelFamily(StringRef name) {
  for (const KernelFamily *family : allKernelFamilies())
    if (family->name == name)
      return family;
  return nullptr;
}

const KernelFamily &kernelFamilyOf(const Op &op) { return *findKernelFamily(op.identAttribute("kernel")); }

const Tile &tileOf(const Op &op) { return op.attribute("tile")->asDict(); }

} // namespace kiln
