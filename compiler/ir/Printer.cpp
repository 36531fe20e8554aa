#include "ir/Printer.h"

namespace kiln {

namespace {

/// The parts of a line, which are aligned with those of neighbouring lines.
struct Line {
  std::string results; ///< "%a, %b"
  std::string text;    ///< "matmul %x, %w {…}"
  std::string types;   ///< "f32[B,T,768]"
  std::string loc;     ///< " loc(…)" or empty
  const Op *fused = nullptr;
};

std::string joinValues(ArrayRef<Value *> values) {
  return llvm::join(llvm::map_range(values, [](Value *value) { return "%" + value->name; }), ", ");
}

std::string resultNames(const Op &op) {
  return llvm::join(llvm::map_range(op.results(), [](const auto &value) { return "%" + value->name; }), ", ");
}

std::string attributesSuffix(const AttributeMap &attributes) {
  if (attributes.empty())
    return "";
  std::string text = " ";
  raw_string_ostream os(text);
  printAttributes(os, attributes);
  return text;
}

std::string locSuffix(Location loc) {
  if (!loc || loc.isParsePosition)
    return "";
  std::string text;
  raw_string_ostream os(text);
  os << "  loc(\"";
  llvm::printEscapedString(loc.file->name, os);
  os << "\":" << loc.line << ':' << loc.column << ')';
  return text;
}

std::string typeList(ArrayRef<Type> types) {
  return llvm::join(llvm::map_range(types, [](const Type &type) { return type.str(); }), ", ");
}

/// The text between the '=' and the ':'.
std::string opText(const Op &op) {
  if (op.is(OpKind::fused))
    return "fused @" + op.symbol + "(" + joinValues(op.inputs()) + ")";
  std::string text = op.mnemonic().str();
  if (!op.operands().empty())
    text += " " + joinValues(op.operands());
  return text + attributesSuffix(op.attributes());
}

class ModulePrinter {
public:
  explicit ModulePrinter(raw_ostream &os) : os(os) {}

  void print(const Module &module) {
    os << "module @" << module.name;
    printHeadAttributes(module.attributes);
    os << " {\n";
    for (const auto &dim : module.dims)
      os << "  dim " << dim->name << " : " << dim->min << ".." << dim->max << '\n';
    printWeights(module);
    for (const auto &state : module.states)
      os << "  state %" << state->name << " : " << state->type.str() << '\n';
    for (const auto &function : module.functions) {
      os << '\n';
      printFunction(*function);
    }
    os << "}\n";
  }

private:
  void printHeadAttributes(const AttributeMap &attributes) {
    if (!attributes.empty())
      os << " attributes" << attributesSuffix(attributes);
  }

  void printWeights(const Module &module) {
    size_t nameWidth = 0, typeWidth = 0;
    for (const auto &weight : module.weights) {
      nameWidth = std::max(nameWidth, weight->name.size());
      typeWidth = std::max(typeWidth, weight->type.str().size());
    }
    for (const auto &weight : module.weights) {
      os << "  weight %" << llvm::left_justify(weight->name, nameWidth) << " : "
         << llvm::left_justify(weight->type.str(), typeWidth) << " = ";
      printRecipe(*weight->recipe);
      os << '\n';
    }
  }

  void printRecipe(const WeightRecipe &recipe) {
    auto name = [&](StringRef tensor) {
      os << '"';
      llvm::printEscapedString(tensor, os);
      os << '"';
    };
    name(recipe.source);
    if (recipe.split || recipe.sum || recipe.transpose || recipe.pad)
      os << shapeString(recipe.sourceShape);
    if (recipe.split)
      printSplit(*recipe.split);
    if (recipe.scale) {
      os << " -> scale ";
      name(*recipe.scale);
    }
    if (recipe.add) {
      os << " -> add ";
      name(recipe.add->vector);
      os << " times ";
      name(recipe.add->matrix);
      os << shapeString(recipe.add->matrixShape);
    }
    if (recipe.sum)
      os << " -> sum " << dtypeName(*recipe.sum);
    os << (recipe.transpose ? " -> transpose" : "") << (recipe.pad ? " -> pad" : "");
  }

  void printSplit(const RankSplit &split) {
    os << " -> split " << (split.ofRows ? "rows" : "columns") << " ranks " << split.ranks;
    if (split.unit != 1)
      os << " unit " << split.unit;
    if (split.parts != 1)
      os << " parts " << split.parts;
  }

  void printFunction(const Function &function) {
    os << "  func @" << function.name << '(';
    llvm::interleaveComma(function.arguments, os,
                          [&](const auto &argument) { os << '%' << argument->name << ": " << argument->type.str(); });
    os << ") -> ";
    if (function.resultTypes.size() == 1)
      os << function.resultTypes[0].str();
    else
      os << '(' << typeList(function.resultTypes) << ')';
    printHeadAttributes(function.attributes);
    os << " {\n";
    printBlock(function.body, 4);
    os << "  }\n";
  }

  void printBlock(const Block &block, unsigned indent) {
    std::vector<Line> lines;
    for (const auto &op : block.ops())
      lines.push_back(makeLine(*op));
    size_t nameWidth = 0, textWidth = 0;
    for (const Line &line : lines) {
      if (line.fused || line.results.empty())
        continue;
      // A few long lines must not push all types off the screen.
      nameWidth = std::max(nameWidth, line.results.size());
      if (line.text.size() <= 56)
        textWidth = std::max(textWidth, line.text.size());
    }
    for (const Line &line : lines) {
      os.indent(indent);
      if (line.fused)
        printFused(line, indent);
      else if (line.results.empty())
        os << line.text;
      else
        os << llvm::left_justify(line.results, nameWidth) << " = " << llvm::left_justify(line.text, textWidth) << " : "
           << line.types;
      os << line.loc << '\n';
    }
  }

  Line makeLine(const Op &op) {
    Line line{resultNames(op), opText(op), {}, locSuffix(op.loc), op.is(OpKind::fused) ? &op : nullptr};
    line.types = llvm::join(llvm::map_range(op.results(), [](const auto &v) { return v->type.str(); }), ", ");
    return line;
  }

  void printFused(const Line &line, unsigned indent) {
    os << line.results << " = " << line.text << " {\n";
    printBlock(*line.fused->region(), indent + 2);
    os.indent(indent) << '}' << attributesSuffix(line.fused->attributes()) << " : " << line.types;
  }

  raw_ostream &os;
};

} // namespace

void print(const Module &module, raw_ostream &os) { ModulePrinter(os).print(module); }

std::string toString(const Module &module) {
  std::string text;
  raw_string_ostream os(text);
  print(module, os);
  return text;
}

std::string toLine(const Op &op) { return op.results().empty() ? opText(op) : resultNames(op) + " = " + opText(op); }

} // namespace kiln
