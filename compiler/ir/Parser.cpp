#include "ir/Parser.h"

#include "ir/ParserBase.h"
#include "ir/Verifier.h"
#include "support/Diagnostic.h"

namespace kiln {

namespace {

struct ResultName {
  StringRef name;
  Location loc;
};

/// Recursive descent over the grammar of docs/ir.md.
class Parser : private ParserBase {
public:
  Parser(const SourceFile *file, SourceManager &sources, const OpTable &table)
      : ParserBase(file), sources(sources), table(table) {}

  Expected<std::unique_ptr<Module>> parse();

private:
  using Scope = StringMap<Value *>;

  // Module items
  Error parseItem();
  Error parseDim();
  Error parseWeight();
  Error parseRecipe(WeightRecipe &recipe);
  Error parseState();
  Error parseFunction();
  Error parseArguments(Function &function);
  Error parseResultTypes(Function &function);

  // Ops
  Error parseBlock(Block &block);
  Error parseOp(Block &block);
  Expected<SmallVector<ResultName, 2>> parseResultNames();
  Expected<const OpDef *> parseMnemonic(const Block &block, bool hasResultNames);
  Error parseFusedBody(Op &op);
  Error parseResultTypes(Op &op, ArrayRef<ResultName> names);
  Expected<Value *> parseValueUse();
  Expected<SmallVector<Value *, 4>> parseValueUses();
  Error parseLocation(Location &loc);

  Error define(Value *value);

  SourceManager &sources;
  const OpTable &table;
  std::vector<Scope> scopes; ///< module, function, fused region
};

//===----------------------------------------------------------------------===//
// Module items
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<Module>> Parser::parse() {
  Location loc = here();
  if (!consumeWord("module"))
    return expected("'module'");
  Expected<StringRef> name = expect(Token::Kind::Symbol, "a name after 'module', like @gpt2");
  if (!name)
    return name.takeError();
  module = std::make_unique<Module>(*name);
  module->loc = loc;
  scopes.emplace_back();
  if (consumeWord("attributes"))
    if (Error error = parseOptionalAttributes(module->attributes))
      return error;
  if (Error error = expectPunct("{"))
    return error;
  while (!token.is("}"))
    if (Error error = parseItem())
      return error;
  advance();
  if (token.kind != Token::Kind::End)
    return expected("the end of the text after the module");
  if (Error error = verify(*module))
    return error;
  return std::move(module);
}

Error Parser::parseItem() {
  if (consumeWord("dim"))
    return parseDim();
  if (consumeWord("weight"))
    return parseWeight();
  if (consumeWord("state"))
    return parseState();
  if (consumeWord("func"))
    return parseFunction();
  return expected("dim, weight, state, func or '}'");
}

Error Parser::parseDim() {
  Location loc = here();
  Expected<StringRef> name = expect(Token::Kind::Word, "the dim's name");
  if (!name)
    return name.takeError();
  if (module->findDim(*name))
    return makeError(loc, *name + " is defined twice", module->findDim(*name)->loc, "first defined here");
  if (Error error = expectPunct(":"))
    return error;
  Location boundsLoc = here();
  Expected<int64_t> low = expectInt();
  if (!low)
    return low.takeError();
  if (Error error = expectPunct(".."))
    return error;
  Expected<int64_t> high = expectInt();
  if (!high)
    return high.takeError();
  if (*low < 1 || *high < *low)
    return makeError(boundsLoc,
                     "dim " + *name + ": expected bounds 1 <= low <= high, got " + Twine(*low) + ".." + Twine(*high));
  module->addDim(*name, *low, *high, loc);
  return Error::success();
}

Error Parser::parseWeight() {
  Location loc = here();
  Expected<StringRef> name = expect(Token::Kind::Value, "the weight's name, like %w");
  if (!name)
    return name.takeError();
  if (Error error = expectPunct(":"))
    return error;
  Location typeLoc = here();
  Expected<Type> type = parseType();
  if (!type)
    return type.takeError();
  WeightRecipe recipe;
  recipe.dtype = type->dtype;
  for (const Dim &dim : type->shape) {
    if (!dim.asConstant())
      return makeError(typeLoc, "weight %" + *name + ": expected constant extents, got " + type->str());
    recipe.shape.push_back(*dim.asConstant());
  }
  if (Error error = expectPunct("="))
    return error;
  if (Error error = parseRecipe(recipe))
    return error;
  return define(module->addWeight(*name, *type, std::move(recipe), loc));
}

Error Parser::parseRecipe(WeightRecipe &recipe) {
  Expected<std::string> source = expectString();
  if (!source)
    return source.takeError();
  recipe.source = *source;
  recipe.sourceShape = recipe.shape;
  if (token.is("[")) {
    Expected<SmallVector<int64_t, 2>> shape = parseShape();
    if (!shape)
      return shape.takeError();
    recipe.sourceShape = *shape;
  }
  while (consumePunct("->")) {
    bool &step = token.isWord("transpose") ? recipe.transpose : recipe.pad;
    bool isKnown = token.isWord("transpose") || token.isWord("pad");
    if (!isKnown || step || (token.isWord("transpose") && recipe.pad))
      return expected("transpose or pad, in this order and once each");
    step = true;
    advance();
  }
  return Error::success();
}

Error Parser::parseState() {
  Location loc = here();
  Expected<StringRef> name = expect(Token::Kind::Value, "the state's name, like %k");
  if (!name)
    return name.takeError();
  if (Error error = expectPunct(":"))
    return error;
  Expected<Type> type = parseType();
  if (!type)
    return type.takeError();
  return define(module->addState(*name, *type, loc));
}

Error Parser::parseFunction() {
  Location loc = here();
  Expected<StringRef> name = expect(Token::Kind::Symbol, "the function's name, like @prefill");
  if (!name)
    return name.takeError();
  Function *function = module->addFunction(*name, loc);
  scopes.emplace_back();
  if (Error error = parseArguments(*function))
    return error;
  if (Error error = expectPunct("->"))
    return error;
  if (Error error = parseResultTypes(*function))
    return error;
  if (consumeWord("attributes"))
    if (Error error = parseOptionalAttributes(function->attributes))
      return error;
  if (Error error = expectPunct("{"))
    return error;
  if (Error error = parseBlock(function->body))
    return error;
  scopes.pop_back();
  return Error::success();
}

Error Parser::parseArguments(Function &function) {
  if (Error error = expectPunct("("))
    return error;
  if (consumePunct(")"))
    return Error::success();
  do {
    Location loc = here();
    Expected<StringRef> name = expect(Token::Kind::Value, "an argument, like %x");
    if (!name)
      return name.takeError();
    if (Error error = expectPunct(":"))
      return error;
    Expected<Type> type = parseType();
    if (!type)
      return type.takeError();
    if (Error error = define(function.addArgument(*name, *type, loc)))
      return error;
  } while (consumePunct(","));
  return expectPunct(")");
}

Error Parser::parseResultTypes(Function &function) {
  bool isList = consumePunct("(");
  if (isList && consumePunct(")"))
    return Error::success();
  do {
    Expected<Type> type = parseType();
    if (!type)
      return type.takeError();
    function.resultTypes.push_back(*type);
  } while (isList && consumePunct(","));
  return isList ? expectPunct(")") : Error::success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

Error Parser::parseBlock(Block &block) {
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

Expected<SmallVector<ResultName, 2>> Parser::parseResultNames() {
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

Expected<const OpDef *> Parser::parseMnemonic(const Block &block, bool hasResultNames) {
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

Error Parser::parseOp(Block &block) {
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
    AttributeMap attributes;
    if (Error error = parseOptionalAttributes(attributes))
      return error;
    for (auto &[name, value] : attributes)
      op->setAttribute(name, std::move(value));
  }
  if (!names->empty())
    if (Error error = parseResultTypes(*op, *names))
      return error;
  return parseLocation(op->loc);
}

Error Parser::parseFusedBody(Op &op) {
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

Error Parser::parseResultTypes(Op &op, ArrayRef<ResultName> names) {
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

Expected<Value *> Parser::parseValueUse() {
  Location loc = here();
  Expected<StringRef> name = expect(Token::Kind::Value, "a value, like %x");
  if (!name)
    return name.takeError();
  for (const Scope &scope : llvm::reverse(scopes))
    if (auto it = scope.find(*name); it != scope.end())
      return it->second;
  return makeError(loc, "%" + *name + " is not defined");
}

Expected<SmallVector<Value *, 4>> Parser::parseValueUses() {
  SmallVector<Value *, 4> values;
  do {
    Expected<Value *> value = parseValueUse();
    if (!value)
      return value.takeError();
    values.push_back(*value);
  } while (consumePunct(","));
  return values;
}

Error Parser::parseLocation(Location &loc) {
  if (!consumeWord("loc"))
    return Error::success();
  if (Error error = expectPunct("("))
    return error;
  Expected<std::string> name = expectString();
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

Error Parser::define(Value *value) {
  for (const Scope &scope : scopes)
    if (auto it = scope.find(value->name); it != scope.end())
      return makeError(value->loc, "%" + value->name + " is defined twice", it->second->loc, "first defined here");
  scopes.back()[value->name] = value;
  return Error::success();
}

} // namespace

Expected<std::unique_ptr<Module>> parseModule(const SourceFile *file, SourceManager &sources, const OpTable &table) {
  return Parser(file, sources, table).parse();
}

} // namespace kiln
