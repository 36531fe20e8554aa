#include "ir/Parser.h"

#include "ir/OpParser.h"
#include "ir/Verifier.h"
#include "support/Diagnostic.h"

namespace kiln {

namespace {

/// Parses what a module contains, by recursive descent over the grammar of docs/ir.md.
class Parser : private OpParser {
public:
  Parser(const SourceFile *file, SourceManager &sources, const OpTable &table) : OpParser(file, sources, table) {}

  Expected<std::unique_ptr<Module>> parse();

private:
  Error parseItem();
  Error parseDim();
  Error parseWeight();
  Error parseRecipe(WeightRecipe &recipe);
  Error parseRecipeStep(WeightRecipe &recipe);
  Error parseSplit(RankSplit &split);
  Error parseProduct(WeightRecipe::Product &product);
  Error parseState();
  Error parseFunction();
  Error parseArguments(Function &function);
  Error parseResultTypes(Function &function);
};

} // namespace

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
  if (Error error = parseHeadAttributes(moduleAttributes(), module->attributes))
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
  if (token.is("["))
    if (Error error = parseShape().moveInto(recipe.sourceShape))
      return error;
  constexpr StringRef steps[] = {"split", "scale", "add", "sum", "transpose", "pad"};
  size_t next = 0;
  while (consumePunct("->")) {
    size_t step = next;
    while (step < std::size(steps) && !token.isWord(steps[step]))
      ++step;
    if (step == std::size(steps))
      return expected("split, scale, add, sum, transpose or pad, in this order and once each");
    next = step + 1;
    if (Error error = parseRecipeStep(recipe))
      return error;
  }
  return Error::success();
}

Error Parser::parseRecipeStep(WeightRecipe &recipe) {
  if (consumeWord("split"))
    return parseSplit(recipe.split.emplace());
  if (consumeWord("scale"))
    return expectString().moveInto(recipe.scale.emplace());
  if (consumeWord("add"))
    return parseProduct(recipe.add.emplace());
  if (consumeWord("sum")) {
    std::optional<DType> dtype = token.kind == Token::Kind::Word ? parseDType(token.text) : std::nullopt;
    if (!dtype)
      return expected("the type that elements are rounded to, like bf16");
    recipe.sum = dtype;
    advance();
    return Error::success();
  }
  if (consumeWord("transpose")) {
    recipe.transpose = true;
    return Error::success();
  }
  consumeWord("pad");
  recipe.pad = true;
  return Error::success();
}

Error Parser::parseSplit(RankSplit &split) {
  split.ofRows = token.isWord("rows");
  if (!consumeWord("rows") && !consumeWord("columns"))
    return expected("rows or columns");
  if (!consumeWord("ranks"))
    return expected("'ranks' and their number");
  if (Error error = expectInt().moveInto(split.ranks))
    return error;
  if (consumeWord("unit"))
    if (Error error = expectInt().moveInto(split.unit))
      return error;
  return consumeWord("parts") ? expectInt().moveInto(split.parts) : Error::success();
}

Error Parser::parseProduct(WeightRecipe::Product &product) {
  if (Error error = expectString().moveInto(product.vector))
    return error;
  if (!consumeWord("times"))
    return expected("'times' and a matrix");
  if (Error error = expectString().moveInto(product.matrix))
    return error;
  if (!token.is("["))
    return expected("the matrix's shape, like [768,2304]");
  return parseShape().moveInto(product.matrixShape);
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
  if (Error error = parseHeadAttributes(functionAttributes(), function->attributes))
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

Expected<std::unique_ptr<Module>> parseModule(const SourceFile *file, SourceManager &sources, const OpTable &table) {
  return Parser(file, sources, table).parse();
}

} // namespace kiln
