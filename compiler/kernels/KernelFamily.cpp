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

const KernelFamily *selectFamily(const Op &op, const Target &target, const DimBinding &upper) {
  for (const KernelFamily *family : allKernelFamilies())
    if (family->accepts(op, target, upper))
      return family;
  return nullptr;
}

KernelChoice choiceOf(const Op &op) {
  return {findKernelFamily(op.identAttribute("kernel")), op.attribute("tile")->asDict()};
}

std::vector<KernelVariant> variantsOf(const Op &op) {
  std::vector<KernelVariant> variants;
  if (const Attribute *list = op.attribute("variants"))
    for (const Attribute &item : list->asList()) {
      const AttributeMap &entry = item.asDict();
      variants.push_back({entry.find("batch")->second.asInt(),
                          {findKernelFamily(entry.find("kernel")->second.asString()), entry.find("tile")->second.asDict()}});
    }
  return variants;
}

Attribute variantsAttribute(ArrayRef<KernelVariant> variants) {
  Attribute::List list;
  for (const KernelVariant &variant : variants)
    list.push_back(AttributeMap{{"batch", variant.batch},
                                {"kernel", Attribute::ident(variant.choice.family->name)},
                                {"tile", variant.choice.tile}});
  return list;
}

} // namespace kiln
