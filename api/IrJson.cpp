#include "api/Json.h"

#include "ir/Printer.h"

namespace kiln::api {

json::Value jsonExpr(const Expr &expr) {
  std::string text = expr.str();
  int64_t number;
  return StringRef(text).getAsInteger(10, number) ? jsonText(text) : json::Value(number);
}

namespace {

class ModuleWriter {
public:
  explicit ModuleWriter(json::OStream &out) : out(out) {}

  void write(const Module &module) {
    out.object([&] {
      out.attribute("name", jsonText(module.name));
      attributes(module.attributes);
      out.attributeArray("dims", [&] {
        for (const auto &dim : module.dims)
          out.object([&] {
            out.attribute("name", jsonText(dim->name));
            out.attribute("min", dim->min);
            out.attribute("max", dim->max);
          });
      });
      values("weights", module.weights);
      values("states", module.states);
      out.attributeArray("functions", [&] {
        for (const auto &function : module.functions)
          write(*function);
      });
    });
  }

private:
  void write(const Function &function) {
    out.object([&] {
      out.attribute("name", jsonText(function.name));
      attributes(function.attributes);
      location(function.loc);
      values("arguments", function.arguments);
      out.attributeArray("results", [&] {
        for (const Type &result : function.resultTypes)
          type(result);
      });
      ops(function.body);
    });
  }

  void ops(const Block &block) {
    out.attributeArray("ops", [&] {
      for (const auto &op : block.ops())
        write(*op);
    });
  }

  void write(const Op &op) {
    out.object([&] {
      out.attribute("op", jsonText(op.mnemonic()));
      out.attribute("text", jsonText(toLine(op)));
      if (!op.symbol.empty())
        out.attribute("symbol", jsonText(op.symbol));
      attributes(op.attributes());
      location(op.loc);
      out.attributeArray("operands", [&] {
        for (const Value *operand : op.inputs())
          out.value(ids.at(operand));
      });
      // Before the results, which a region cannot refer to: numbers ascend with the text.
      if (op.region())
        out.attributeArray("regions", [&] { out.object([&] { ops(*op.region()); }); });
      values("results", op.results());
    });
  }

  void values(StringRef key, ArrayRef<std::unique_ptr<Value>> list) {
    out.attributeArray(key, [&] {
      for (const auto &value : list)
        write(*value);
    });
  }

  void write(const Value &value) {
    auto id = static_cast<int64_t>(ids.size());
    ids[&value] = id;
    out.object([&] {
      out.attribute("id", id);
      out.attribute("name", jsonText(value.name));
      out.attributeBegin("type");
      type(value.type);
      out.attributeEnd();
      if (value.recipe)
        out.attribute("source", jsonText(value.recipe->source));
      location(value.loc);
    });
  }

  void type(const Type &type) {
    out.object([&] {
      out.attribute("dtype", dtypeName(type.dtype));
      out.attributeArray("shape", [&] {
        for (const Dim &dim : type.shape)
          out.value(jsonExpr(dim.expr()));
      });
    });
  }

  void location(const Location &location) {
    if (!location)
      return;
    out.attributeObject("location", [&] {
      out.attribute("file", jsonText(location.file->name));
      out.attribute("line", location.line);
      out.attribute("column", location.column);
    });
  }

  void attributes(const AttributeMap &map) {
    out.attributeBegin("attributes");
    dict(map);
    out.attributeEnd();
  }

  void dict(const AttributeMap &map) {
    out.object([&] {
      for (const auto &[name, value] : map) {
        out.attributeBegin(json::fixUTF8(name));
        attribute(value);
        out.attributeEnd();
      }
    });
  }

  /// With its kind: JSON does not tell 1 from 1.0, nor an identifier from text.
  void attribute(const Attribute &attribute) {
    static constexpr StringRef kinds[] = {"int", "float", "bool", "ident", "text", "list", "dict"};
    out.array([&] {
      out.value(kinds[static_cast<size_t>(attribute.kind())]);
      switch (attribute.kind()) {
      case Attribute::Kind::Int:
        return out.value(attribute.asInt());
      case Attribute::Kind::Float:
        return out.value(attribute.asFloat());
      case Attribute::Kind::Bool:
        return out.value(attribute.asBool());
      case Attribute::Kind::Ident:
      case Attribute::Kind::Text:
        return out.value(jsonText(attribute.asString()));
      case Attribute::Kind::List:
        return out.array([&] {
          for (const Attribute &element : attribute.asList())
            this->attribute(element);
        });
      case Attribute::Kind::Dict:
        return dict(attribute.asDict());
      }
    });
  }

  json::OStream &out;
  std::map<const Value *, int64_t> ids; ///< numbers of values, from 0, in the order of the text
};

} // namespace

void writeJson(json::OStream &out, const Module &module) { ModuleWriter(out).write(module); }

} // namespace kiln::api
