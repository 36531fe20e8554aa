#include "codegen/PhaseFunctors.h"

namespace kiln {

void PhaseFunctors::addOperands(Functor &functor, ArrayRef<EpilogueEmitter::Ahead> ahead) {
  if (ahead.empty()) {
    functor.add("struct Operands {};");
    functor.add("KILN_DEVICE Operands operands(int) const { return {}; }");
    return;
  }
  SmallVector<std::string, 2> loads;
  functor.add("static constexpr int V = 2;");
  functor.add("struct Operands {");
  for (const EpilogueEmitter::Ahead &operand : ahead) {
    functor.add("  " + operand.type + " " + operand.name + ";");
    loads.push_back(operand.load);
  }
  functor.add("};");
  functor.add("KILN_DEVICE Operands operands(int col) const { return {" + llvm::join(loads, ", ") + "}; }");
}

Functor PhaseFunctors::token(const Op &embed) const {
  Functor functor("Token", names);
  functor.add("KILN_DEVICE int operator()(int row) const { return " + functor.pointer(*embed.operand(0)) + "[row]; }");
  return functor;
}

/// With `prefetches`, also asks for what it reads of a line of the cache, from `col` on.
Functor PhaseFunctors::embed(const Op &embed, bool prefetches) const {
  Functor functor("Embed", names);
  functor.add("KILN_DEVICE Vec<float, 2> operator()(int token, int position, int col) const {");
  functor.add("  return " + embeddedSum(functor, embed, "token", "position", "2") + "; // " + names.line(embed),
              &embed);
  functor.add("}");
  if (!prefetches)
    return functor;
  const EmbeddedPlaces at = embeddedPlaces(functor, embed, "token", "position");
  functor.add("KILN_DEVICE void prefetch(int token, int position, int col) const {");
  functor.add("  prefetchLine(" + at.token + ");");
  functor.add("  prefetchLine(" + at.position + ");");
  functor.add("}");
  return functor;
}

/// A layernorm without parameters, of the row with which `product` multiplies, done on the product's sums.
Functor PhaseFunctors::norm(StringRef name, const Op &layernorm, const Op &product) const {
  Functor functor(name, names);
  std::string sums = names.of(*product.result()).str(), weights = names.of(*product.operand(1)).str();
  functor.add("static constexpr float kEps = " + layernorm.attribute("eps")->str() + "f;");
  functor.add("KILN_DEVICE Vec<float, 2> operator()(Vec<float, 2> " + sums + ", Vec<float, 2> " + weights +
              ", float mean, float rstd) const {");
  functor.add("  return (" + sums + " - " + weights + " * mean) * rstd; // " + names.line(layernorm), &layernorm);
  functor.add("}");
  return functor;
}

Functor PhaseFunctors::lastNorm(StringRef name, const Op &layernorm) const {
  Functor functor(name, names);
  functor.add("static constexpr float kEps = " + layernorm.attribute("eps")->str() + "f;");
  std::vector<EpilogueEmitter::Ahead> parameters;
  std::string apply;
  for (unsigned i = 1; i < layernorm.operands().size(); ++i) {
    const Value &parameter = *layernorm.operand(i);
    std::string pointer = functor.pointer(parameter);
    apply += (i == 1 ? " * with." : " + with.") + pointer + ".unpack()";
    if (llvm::none_of(parameters, [&](const auto &known) { return known.name == pointer; }))
      parameters.push_back({("Packed<" + cxxType(parameter.type.dtype) + ", V>").str(), pointer,
                            "kiln::loadPacked<V>(" + pointer + " + col)"});
  }
  addOperands(functor, parameters);
  std::string x = names.of(*layernorm.operand(0)).str(), result = names.of(*layernorm.result()).str();
  functor.add("KILN_DEVICE Vec<float, 2> operator()(Vec<float, 2> " + x + ", float mean, float rstd, const Operands &" +
              (parameters.empty() ? "" : "with") + ") const {");
  functor.add("  const auto " + result + " = (" + x + " - mean) * rstd" + apply + "; // " + names.line(layernorm),
              &layernorm);
  functor.add("  return " + result + ";");
  functor.add("}");
  return functor;
}

Expected<Functor> PhaseFunctors::product(StringRef name, const Op &product, ArrayRef<const Op *> behind,
                                         const Value *residual) const {
  Functor functor(name, names);
  EpilogueEmitter emitter(functor, names, op, 2);
  emitter.readAhead();
  const Coordinates at = matmulCoordinates(product.result()->type);
  emitter.begin(*product.result(), at);
  if (residual)
    emitter.begin(*residual, at);
  for (const Op *next : behind)
    if (Error error = emitter.emit(*next))
      return error;
  addOperands(functor, emitter.ahead());
  std::string x = residual ? "Vec<float, 2> " + names.of(*residual).str() + ", " : "";
  functor.add("KILN_DEVICE Vec<float, 2> operator()(Vec<float, 2> " + names.of(*product.result()) + ", " + x +
              "const Operands &with) const {");
  functor.add(emitter.text());
  functor.add("  return " + names.of(*behind.back()->result()) + ";");
  functor.add("}");
  return functor;
}

/// Writes logits of a rank's share of the vocabulary to where they belong in the rows of all ranks.
Functor PhaseFunctors::sharedLogits(const DecodeRegion &region) const {
  Functor functor("Logits", names);
  const int64_t size = region.gather->intAttribute("size"), ranks = region.ranks();
  const std::string share = names.of(*region.product->result()).str(),
                    all = functor.pointersOfRanks(region.logits(), ranks, /*writes=*/true);
  functor.add("template <int V> KILN_DEVICE void operator()(Vec<float, V> " + share + ", int row, int col) const {");
  functor.add("  const int first = " + firstOfShare(functor, size, ranks) +
              ", count = " + countOfShare(functor, size, ranks) + ";");
  functor.add("  if (col < count)");
  functor.add("    store(" + all + " + (i64(row) * " + Twine(size) + " + first + col), " + share + "); // " +
                  names.line(*region.gather),
              region.gather);
  functor.add("}");
  return functor;
}

Expected<Functor> PhaseFunctors::logits(const DecodeRegion &region) const {
  if (region.gather)
    return sharedLogits(region);
  Functor functor("Logits", names);
  EpilogueEmitter emitter(functor, names, op, 2);
  emitter.begin(*region.product->result(), matmulCoordinates(region.product->result()->type));
  if (region.slice)
    if (Error error = emitter.emit(*region.slice))
      return error;
  functor.add("template <int V> KILN_DEVICE void operator()(Vec<float, V> " + names.of(*region.product->result()) +
              ", int row, int col) const {");
  functor.add(emitter.text());
  functor.add("}");
  return functor;
}

} // namespace kiln
