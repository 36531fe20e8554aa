#include "codegen/Functor.h"

#include "ir/Builder.h"
#include "ir/Printer.h"

namespace kiln {

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

// clang-format off
/// Words that appear in generated functors: a value or dim of the same name would hide or clash with one. Words of ops
/// are added from their records, and the writer of a form gives those that only its kernels have.
static constexpr StringRef functorWords[] = {
    "allowDependents", "arrivals", "b", "bf16", "blockIndexZ", "col", "column", "d", "depth", "f16", "found", "group", "groupStatistics", "h", "i32", "i64", "inboxes", "index", "infinity", "kiln", "load", "loadPacked", "loadStreaming", "mail", "mails", "meanOfGroups", "min", "normalize", "of", "operands", "operandsOf", "parameters", "part", "parts", "places", "position", "rank", "rounded", "row", "rowAt", "rowOperands", "rstdOfGroups", "s", "statistics", "stop", "store", "storeShare", "storeStreaming", "t", "target", "to", "toFloat", "token", "u32", "u64", "value", "values", "waitForDependencies", "with", "AnyRow", "BlockInbox", "Body", "Config", "Embed", "Epilogue", "Exchange", "GroupStatistics", "Grouped", "HeadView", "Input", "KILN_DEVICE", "LaneGroups", "Operands", "Packed", "Parameters", "Part", "PerLayer", "PerRank", "Position", "RankParts", "Row", "RowOfWarp", "RowOperands", "RowScore", "RowStatistics", "Score", "SharedBytes", "SplitPart", "StampedValue", "TensorMap", "Token", "TokenScores", "V", "Vec"};
/// The keywords of C++17, the language of the kernels.
static constexpr StringRef keywords[] = {
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char",
    "char16_t", "char32_t", "class", "compl", "const", "const_cast", "constexpr", "continue", "decltype", "default",
    "delete", "do", "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for",
    "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq",
    "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "return",
    "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this",
    "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual",
    "void", "volatile", "wchar_t", "while", "xor", "xor_eq"};
// clang-format on

/// The name for an input. An input that was selected from a tensor has the tensor's name: a kernel does not depend on
/// which rows it gets, and equal kernels should have equal texts.
static StringRef inputName(const Value &input) {
  const Op *producer = input.definingOp();
  return withoutLayer(producer && producer->is(OpKind::lastRow) ? producer->operand(0)->name : input.name);
}

/// Adds the words that appear in an op's C++, besides its operands.
static void addWords(const Op &op, StringSet<> &words) {
  if (!op.def().deviceExpression)
    return;
  auto isInWord = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  std::string text = op.def().deviceExpression(op, std::vector<std::string>(op.operands().size()));
  for (StringRef rest = text; !rest.empty();) {
    words.insert(rest.take_while(isInWord));
    rest = rest.drop_while(isInWord).drop_until(isInWord);
  }
}

KernelNames::KernelNames(const Op &op, const KernelFamily &family, ArrayRef<StringRef> more) : op(op) {
  for (ArrayRef<StringRef> words : {ArrayRef(functorWords), ArrayRef(keywords), more})
    for (StringRef word : words)
      taken.insert(word);
  addWords(op, taken);
  if (op.region())
    for (const auto &inner : op.region()->ops())
      addWords(*inner, taken);
  for (const auto &dim : op.parent()->function()->module().dims)
    dims[dim.get()] = takeName(dim->name, {});
  if (const Attribute *list = op.attribute("constants"))
    for (const Value *input : op.inputs())
      if (input->isWeight() && llvm::is_contained(list->asList(), Attribute::text(input->name)))
        constants.insert(input);
  // A parameter of its name would hide the template where it is called.
  taken.insert(family.body);
  if (!op.region())
    // A plain op uses the operand names of its record, so that equal kernels have equal texts.
    for (const auto &[operand, spec] : llvm::zip(op.operands(), op.def().operands))
      add(*operand, spec.name);
  else
    for (const Value *input : op.inputs())
      add(*input, inputName(*input));
  taken.erase(family.body);
  if (!op.region()) {
    add(*op.result(), op.mnemonic());
    return;
  }
  for (const auto &inner : op.region()->ops())
    for (const auto &result : inner->results())
      add(*result, withoutLayer(result->name));
  // A result is named like the value that the region yields for it.
  for (const auto &result : op.results())
    names[result.get()] = names[op.region()->terminator()->operand(result->resultIndex())];
}

/// Whether C++ reserves the name, or it is one of a constant.
static bool isReserved(StringRef name) {
  auto isUpperAt = [&](size_t i) { return name.size() > i && llvm::isUpper(name[i]); };
  return name.starts_with("__") || (name.starts_with("_") && isUpperAt(1)) || (name.starts_with("k") && isUpperAt(1));
}

std::string KernelNames::takeName(StringRef hint, ArrayRef<StringRef> suffixes) {
  std::string base = hint.str();
  std::replace(base.begin(), base.end(), '.', '_');
  if (llvm::isDigit(base[0]) || isReserved(base))
    base = "v" + base;
  std::string candidate = base;
  auto isTaken = [&](StringRef suffix) { return taken.contains(candidate + suffix.str()); };
  for (int i = 2; isTaken("") || llvm::any_of(suffixes, isTaken); ++i)
    candidate = base + "_" + std::to_string(i);
  taken.insert(candidate);
  return candidate;
}

void KernelNames::add(const Value &value, StringRef hint) {
  if (names.count(&value))
    return;
  std::string name = takeName(hint, {"_out", "_map", "_of_row"});
  for (StringRef suffix : {isComputedHere(value) ? "_out" : "_map", "_of_row"})
    taken.insert(name + suffix.str());
  names[&value] = std::move(name);
}

bool KernelNames::isComputedHere(const Value &value) const {
  const Op *producer = value.definingOp();
  return producer && producer->topLevel() == &op;
}

std::string KernelNames::pointerTo(const Value &value) const {
  return of(value).str() + (isComputedHere(value) ? "_out" : "");
}

std::string KernelNames::operation(const Op &op) const {
  std::string text = op.mnemonic().str();
  raw_string_ostream os(text);
  for (const auto &[i, operand] : llvm::enumerate(op.operands()))
    os << (i ? ", %" : " %") << of(*operand);
  // Leave out attributes of later stages, which do not change what the op computes.
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
  // The order of members: addresses that are read, addresses that are written, extents.
  auto rank = [](const Member &m) { return !m.value ? 2 : m.writes ? 1 : 0; };
  auto at = llvm::find_if(memberList, [&](const Member &known) { return rank(known) > rank(member); });
  memberList.insert(at, std::move(member));
}

std::string Functor::pointer(const Value &value, bool writes) {
  std::string type = ((writes ? "" : "const ") + cxxType(value.type.dtype) + " *").str();
  std::string name = names.pointerTo(value);
  if (names.isConstant(value))
    return name;
  addMember({type, name, &value, writes});
  return name;
}

std::string Functor::pointersOfRanks(const Value &value, int64_t ranks, bool writes) {
  std::string type =
      ("PerRank<" + Twine(writes ? "" : "const ") + cxxType(value.type.dtype) + " *, " + Twine(ranks) + "> ").str();
  addMember({type, names.pointerTo(value), &value, writes, /*isMap=*/false, ranks});
  return names.pointerTo(value);
}

std::string Functor::map(const Value &value) {
  std::string name = names.mapOf(value);
  addMember({"const __grid_constant__ TensorMap ", name, &value, /*writes=*/false, /*isMap=*/true});
  return name;
}

std::string Functor::extent(const Dim &dim) {
  if (auto constant = dim.asConstant())
    return std::to_string(*constant);
  std::string name = names.of(*dim.getSymbol()).str();
  addMember({"int ", name, nullptr, false, /*isMap=*/false, /*ranks=*/1, dim.getSymbol()});
  return name;
}

std::string Functor::rank() {
  addMember({"int ", "rank", nullptr, false});
  return "rank";
}

std::string Functor::mail() {
  addMember({"StampedValue *", "mail", nullptr, false});
  return "mail";
}

void Functor::addMembersOf(const Functor &other) {
  for (const Member &member : other.memberList)
    addMember(member);
}

std::vector<CodeLine> Functor::declaration() const {
  std::vector<CodeLine> all = {{"struct " + structName.str() + " {"}};
  // Neighbours of one type share a line: `const float *x, *ln_w;`
  std::string declared;
  for (size_t i = 0; i < memberList.size(); ++i) {
    StringRef type = memberList[i].type;
    bool continues = i > 0 && memberList[i - 1].type == type;
    bool isPointer = type.ends_with("*");
    declared += continues ? ", " + std::string(isPointer ? "*" : "") : "  " + type.str();
    declared += memberList[i].name;
    if (i + 1 == memberList.size() || memberList[i + 1].type != type)
      all.push_back({std::exchange(declared, "") + ";"});
  }
  if (!memberList.empty())
    all.push_back({""});
  for (const CodeLine &line : lines)
    all.emplace_back(line.text.empty() ? "" : "  " + line.text, line.ops);
  all.push_back({"};"});
  return all;
}

std::string Functor::construction() const {
  return structName.str() + "{" +
         llvm::join(llvm::map_range(memberList, [](const Member &member) { return member.name; }), ", ") + "}";
}

//===----------------------------------------------------------------------===//
// Offsets
//===----------------------------------------------------------------------===//

std::string elementOffset(const Coordinates &at, ArrayRef<std::string> extents) {
  if (extents.size() == 1)
    return at.last().str();
  auto scaled = [&](const std::string &outer, StringRef extent, StringRef inner) {
    // The offset is 64-bit from the first product on: caches and logits can exceed two billion elements.
    std::string left =
        StringRef(outer).starts_with("(") || StringRef(outer).starts_with("i64(") ? outer : "i64(" + outer + ")";
    std::string product = extent == "1" ? outer : left + " * " + extent.str();
    return inner == "0" ? product : outer == "0" ? inner.str() : product + " + " + inner.str();
  };
  if (!at.row.empty())
    return scaled(at.row, extents.back(), at.last());
  std::string offset = at.index[0];
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i] == "1" && at.index[i] == "0")
      continue;
    if (StringRef(offset).contains(" + "))
      offset = "(" + offset + ")";
    offset = scaled(offset, extents[i], at.index[i]);
  }
  return offset;
}

std::string elementOffset(Functor &functor, const Coordinates &at, const Type &type) {
  // An extent becomes a member only if the offset depends on it.
  SmallVector<std::string, 4> extents(type.rank());
  for (size_t i = at.row.empty() ? 1 : type.rank() - 1; i < type.rank(); ++i)
    extents[i] = functor.extent(type.shape[i]);
  return elementOffset(at, extents);
}

} // namespace kiln
