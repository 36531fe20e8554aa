#include "kernels/KernelFamily.h"

#include "ir/Verifier.h"
#include "kernels/Families.h"
#include "support/Diagnostic.h"

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

Expected<const Target *> targetOf(const Module &module) {
  auto target = module.attributes.find("target");
  if (target == module.attributes.end() || target->second.kind() != Attribute::Kind::Ident)
    return makeError(module.loc, "expected the module attribute 'target', the name of a GPU; run select-kernels first");
  return findTarget(target->second.asString());
}

Expected<const KernelFamily *> checkFamily(const Op &op, const Target &target) {
  StringRef name = op.identAttribute("kernel");
  if (name.empty())
    return opError(op, "expected the attribute 'kernel'; run select-kernels first");
  const KernelFamily *family = findKernelFamily(name);
  if (!family)
    return opError(op, "attribute 'kernel': expected a kernel family, got " + name);
  if (!family->accepts(op, target))
    return opError(op, "attribute 'kernel': " + name + " does not run this");
  return family;
}

Error checkTile(const Op &op, const KernelFamily &family, const Target &target) {
  if (!op.attribute("tile"))
    return opError(op, "expected the attribute 'tile'; run choose-tiles first");
  const Tile &tile = tileOf(op), example = family.configurations(op, target).front();
  bool fits = tile.size() == example.size();
  for (const auto &[setting, value] : example) {
    auto it = tile.find(setting);
    fits = fits && it != tile.end() && it->second.kind() == value.kind() &&
           (value.kind() != Attribute::Kind::Int || it->second.asInt() > 0);
  }
  return fits ? Error::success()
              : opError(op, "attribute 'tile': expected settings like " + Attribute(example).str() + ", got " +
                                op.attribute("tile")->str());
}

const KernelFamily &kernelFamilyOf(const Op &op) { return *findKernelFamily(op.identAttribute("kernel")); }

const Tile &tileOf(const Op &op) { return op.attribute("tile")->asDict(); }

} // namespace kiln
