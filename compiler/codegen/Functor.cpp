#include "codegen/Functor.h"

#include "ir/Builder.h"
#include "ir/Printer.h"

namespace kiln {

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

KernelNames::KernelNames(const Op &op) : op(op) {
  // What the templates' functors are called with.
  for (StringRef word : {"row", "col", "k", "b", "h", "t", "d", "s", "index", "statistics", "V", "B", "T"})
    taken.insert(word);
  for (const Value *input : op.inputs())
    add(*input);
  if (op.region())
    for (const auto &inner : op.region()->ops())
      for (const auto &result : inner->results())
        add(*result);
  // A yielded value is stored under the name that the region gave it.
  for (const auto &result : op.results()) {
    if (op.region())
      names[result.get()] = names[op.region()->terminator()->operand(result->resultIndex())];
    else
      add(*result);
  }
}

void KernelNames::add(const Value &value) {
  if (names.count(&value))
    return;
  std::string base = withoutLayer(value.name).str();
  std::replace(base.begin(), base.end(), '.', '_');
  if (llvm::isDigit(base[0]))
    base = "v" + base;
  std::string candidate = base;
  for (int i = 2; taken.contains(candidate) || taken.contains(candidate + "_out"); ++i)
    candidate = base + "_" + std::to_string(i);
  taken.insert(candidate);
  names[&value] = candidate;
}

std::string KernelNames::pointerTo(const Value &value) const {
  const Op *producer = value.definingOp();
  bool isComputedHere = producer && producer->topLevel() == &op;
  return of(value).str() + (isComputedHere ? "_out" : "");
}

std::string KernelNames::line(const Op &op) const {
  std::string text = "%" + of(*op.result()).str() + " = " + op.mnemonic().str();
  raw_string_ostream os(text);
  for (const auto &[i, operand] : llvm::enumerate(op.operands()))
    os << (i ? ", %" : " %") << of(*operand);
  // What later stages wrote is no part of what the op computes.
  AttributeMap own = op.attributes();
  for (const AttributeSpec &spec : commonAttributes())
    own.erase(spec.name.str());
  if (!own.empty()) {
    os << ' ';
    printAttributes(os, own);
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Functor
//===----------------------------------------------------------------------===//

StringRef cxxType(DType dtype) {
  static constexpr StringRef names[] = {"float", "f16", "bf16", "int"};
  return names[static_cast<int>(dtype)];
}

void Functor::addMember(Member member) {
  for (Member &known : memberList)
    if (known.name == member.name) {
      known.writes |= member.writes;
      known.type = known.writes ? StringRef(known.type).ltrim("const ").str() : known.type;
      return;
    }
  memberList.push_back(std::move(member));
}

std::string Functor::pointer(const Value &value, bool writes) {
  std::string type = ((writes ? "" : "const ") + cxxType(value.type.dtype) + " *").str();
  std::string name = names.pointerTo(value);
  addMember({type, name, &value, writes});
  return name;
}

std::string Functor::extent(const Dim &dim) {
  if (auto constant = dim.asConstant())
    return std::to_string(*constant);
  addMember({"int ", dim.str(), nullptr, false});
  return dim.str();
}

void Functor::addMembersOf(const Functor &other) {
  for (const Member &member : other.memberList)
    addMember(member);
}

std::string Functor::declaration() const {
  std::string text = "struct " + structName.str() + " {\n";
  for (const Member &member : memberList)
    text += "  " + member.type + member.name + ";\n";
  for (const std::string &line : lines)
    text += (line.empty() ? "" : "  " + line) + "\n";
  return text + "};\n";
}

std::string Functor::construction() const {
  return structName.str() + "{" +
         llvm::join(llvm::map_range(memberList, [](const Member &member) { return member.name; }), ", ") + "}";
}

//===----------------------------------------------------------------------===//
// Offsets
//===----------------------------------------------------------------------===//

std::string elementOffset(Functor &functor, const Coordinates &at, const Type &type) {
  if (type.rank() == 1)
    return at.last().str();
  auto scaled = [&](const std::string &outer, const Dim &dim, StringRef inner) {
    std::string extent = functor.extent(dim);
    // 64-bit from the first product on: caches and logits pass two billion elements.
    std::string left = StringRef(outer).starts_with("(") || StringRef(outer).starts_with("i64(") ? outer : "i64(" + outer + ")";
    std::string product = extent == "1" ? outer : left + " * " + extent;
    return inner == "0" ? product : outer == "0" ? inner.str() : product + " + " + inner.str();
  };
  if (!at.row.empty())
    return scaled(at.row, type.lastDim(), at.last());
  std::string offset = at.index[0];
  for (size_t i = 1; i < type.rank(); ++i) {
    if (StringRef(offset).contains(" + "))
      offset = "(" + offset + ")";
    offset = scaled(offset, type.shape[i], at.index[i]);
  }
  return offset;
}

} // namespace kiln
