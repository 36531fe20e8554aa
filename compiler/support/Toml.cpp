// toml++ is slow to compile: this is the only file that includes it. Header-only, so that programs need no
// shared library of it where they run; without exceptions, as the rest of this project.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
// It takes for granted that a key follows `[[`, as an assertion or, without them, a licence for the compiler; the code
// behind that diagnoses what is no key, and so it does if nothing is taken for granted.
#include <toml++/impl/preprocessor.h>
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT_ASSUME(condition) static_assert(true)

#include <toml++/toml.h>

#include "support/Config.h"
#include "support/Diagnostic.h"

namespace kiln {

static Location toLocation(const SourceFile *file, const toml::source_region &region) {
  return {file, static_cast<unsigned>(region.begin.line), static_cast<unsigned>(region.begin.column)};
}

static ConfigValue fromToml(const SourceFile *file, const toml::node &node) {
  using Kind = ConfigValue::Kind;
  ConfigValue value;
  value.kind = Kind::Other;
  value.loc = toLocation(file, node.source());
  if (const auto *boolean = node.as_boolean()) {
    value.kind = Kind::Bool;
    value.boolean = boolean->get();
  } else if (const auto *integer = node.as_integer()) {
    value.kind = Kind::Int;
    value.integer = integer->get();
    value.real = static_cast<double>(integer->get());
  } else if (const auto *number = node.as_floating_point()) {
    value.kind = Kind::Float;
    value.real = number->get();
  } else if (const auto *string = node.as_string()) {
    value.kind = Kind::String;
    value.string = string->get();
  } else if (const toml::array *array = node.as_array()) {
    value.kind = Kind::Array;
    for (const toml::node &item : *array)
      value.array.push_back(fromToml(file, item));
  } else if (const toml::table *table = node.as_table()) {
    value.kind = Kind::Table;
    for (const auto &[key, item] : *table)
      value.table.push_back({std::string(key.str()), toLocation(file, key.source()), fromToml(file, item)});
  }
  return value;
}

Expected<ConfigValue> parseToml(const SourceFile *file) {
  toml::parse_result result = toml::parse(*file->text);
  if (!result) {
    std::string message(result.error().description());
    message[0] = llvm::toLower(message[0]);
    return makeError(toLocation(file, result.error().source()), "not valid TOML: " + message);
  }
  ConfigValue root = fromToml(file, result.table());
  root.loc = {file, 1, 1};
  return root;
}

} // namespace kiln
