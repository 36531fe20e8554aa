#include "ir/OpParser.h"

#include "ir/Verifier.h"
#include "support/Diagnostic.h"

namespace kiln {

Error OpParser::parseBlock(Block &block) {
  while (!token.is("}")) {
    if (!block.empty() && block.terminator()->has(Trait::Terminator))
      return expected("'}' after " + block.terminator()->mnemonic());
    if (Error error = parseOp(block))
      return error;
  }
  if (block.empty() || !block.terminator()->has(Trait::Terminator))
    return expected(block.parentOp() ? "an op or yield" : "an op or return");
  advance();
  return Error::success();
}

Expected<SmallVector<OpParser::ResultName, 2>> OpParser::parseResultNames() {
  SmallVector<ResultName, 2> names;
  if (token.kind != Token::Kind::Value)
    return names;
  do {
    Location loc = here();
    Expected<StringRef> name = expect(Token::Kind::Value, "a result, like %x");
    if (!name)
      return name.takeError();
    names.push_back({*name, loc});
  } while (consumePunct(","));
  if (Error error = expectPunct("="))
    return error;
  return names;
}

Expected<const OpDef *> OpParser::parseMnemonic(const Block &block, bool hasResultNames) {
  Location loc = here();
  const OpDef *def = token.kind == Token::Kind::Word ? table.find(token.text) : nullptr;
  if (!def)
    return expected("an op");
  advance();
  bool hasResults = !def->has(Trait::Terminator);
  if (hasResultNames != hasResults)
    return makeError(loc, def->mnemonic + ": expected " + (hasResults ? "a result name before '='" : "no results"));
  if (block.parentOp() && (def->kind == OpKind::fused || def->kind == OpKind::ret))
    return makeError(loc, def->mnemonic + ": expected only outside fused regions");
  if (!block.parentOp() && def->kind == OpKind::yield)
    return makeError(loc, "yield: expected only at the end of a fused region");
  return def;
}

Error OpParser::parseOp(Block &block) {
  Expected<SmallVector<ResultName, 2>> names = parseResultNames();
  if (!names)
    return names.takeError();
  Location loc = here();
  Expected<const OpDef *> def = parseMnemonic(block, !names->empty());
  if (!def)
    return def.takeError();

  Op *op = block.insert(std::make_unique<Op>(**def, ArrayRef<Value *>(), AttributeMap(), loc));
  if (op->is(OpKind::fused)) {
    if (Error error = parseFusedBody(*op))
      return error;
  } else if (token.kind == Token::Kind::Value) {
    Expected<SmallVector<Value *, 4>> operands = parseValueUses();
    if (!operands)
      return operands.takeError();
    for (Value *operand : *operands)
      op->addOperand(operand);
  }
  if (token.is("{")) {
    auto attributes = parseAttributes();
    if (!attributes)
      return attributes.takeError();
    for (NamedAttribute &attribute : *attributes)
      op->setAttribute(attribute.name, std::move(attribute.value));
  }
  if (!names->empty())
    if (Error error = parseResultTypes(*op, *names))
      return error;
  return parseLocation(op->loc);
}

Error OpParser::parseFusedBody(Op &op) {
  Expected<StringRef> symbol = expect(Token::Kind::Symbol, "the region's name, like @matmul_bias");
  if (!symbol)
    return symbol.takeError();
  op.symbol = symbol->str();
  if (Error error = expectPunct("("))
    return error;
  Location inputsLoc = here();
  SmallVector<Value *, 4> inputs;
  if (token.kind == Token::Kind::Value) {
    Expected<SmallVector<Value *, 4>> parsed = parseValueUses();
    if (!parsed)
      return parsed.takeError();
    inputs = *parsed;
  }
  if (Error error = expectPunct(")"))
    return error;
  if (Error error = expectPunct("{"))
    return error;
  scopes.emplace_back();
  if (Error error = parseBlock(*op.createRegion()))
    return error;
  scopes.pop_back();
  SmallVector<Value *, 8> read = op.inputs();
  if (ArrayRef<Value *>(inputs) == ArrayRef<Value *>(read))
    return Error::success();
  std::string names = llvm::join(llvm::map_range(read, [](Value *value) { return "%" + value->name; }), ", ");
  return makeError(inputsLoc,
                   "fused @" + op.symbol + ": expected the inputs in the order of first use, (" + names + ")");
}

Error OpParser::parseResultTypes(Op &op, ArrayRef<ResultName> names) {
  if (Error error = expectPunct(":"))
    return error;
  bool isFused = op.is(OpKind::fused);
  if (!isFused && names.size() != 1)
    return opError(op, "expected one result, got " + Twine(names.size()));
  for (const auto &[i, entry] : llvm::enumerate(names)) {
    if (i)
      if (Error error = expectPunct(","))
        return error;
    Location typeLoc = here();
    Expected<Type> type = parseType();
    if (!type)
      return type.takeError();
    if (!isFused) {
      Expected<Type> inferred = inferType(op);
      if (!inferred)
        return inferred.takeError();
      if (!(*inferred == *type))
        return makeError(typeLoc, op.mnemonic() + ": expected result type " + inferred->str() + ", got " + type->str());
    }
    Value *result = op.addResult(entry.name, *type);
    result->loc = entry.loc;
    if (Error error = define(result))
      return error;
  }
  return Error::success();
}

Expected<Value *> OpParser::parseValueUse() {
  Location loc = here();
  Expected<StringRef> name = expect(Token::Kind::Value, "a value, like %x");
  if (!name)
    return name.takeError();
  for (const Scope &scope : llvm::reverse(scopes))
    if (auto it = scope.find(*name); it != scope.end())
      return it->second;
  return makeError(loc, "%" + *name + " is not defined");
}

Expected<SmallVector<Value *, 4>> OpParser::parseValueUses() {
  SmallVector<Value *, 4> values;
  do {
    Expected<Value *> value = parseValueUse();
    if (!value)
      return value.takeError();
    values.push_back(*value);
  } while (consumePunct(","));
  return values;
}

Error OpParser::parseLocation(Location &loc) {
  if (!consumeWord("loc"))
    return Error::success();
  if (Error error = expectPunct("("))
    return error;
  Expected<std::string> name = expectFileName();
  if (!name)
    return name.takeError();
  unsigned numbers[2];
  for (unsigned &number : numbers) {
    if (Error error = expectPunct(":"))
      return error;
    Location at = here();
    Expected<int64_t> value = expectInt();
    if (!value)
      return value.takeError();
    if (*value < 1 || *value > INT32_MAX)
      return makeError(at, "expected a line or column from 1 to " + Twine(INT32_MAX) + ", got " + Twine(*value));
    number = *value;
  }
  loc = {sources.reference(*name), numbers[0], numbers[1]};
  return expectPunct(")");
}

Error OpParser::define(Value *value) {
  for (const Scope &scope : scopes)
    if (auto it = scope.find(value->name); it != scope.end())
      return makeError(value->loc, "%" + value->name + " is defined twice", it->second->loc, "first defined here");
  scopes.back()[value->name] = value;
  return Error::success();
}

} // namespace kiln
