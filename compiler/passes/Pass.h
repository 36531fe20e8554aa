//===- Pass.h - the record of a pass ----------------------------------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// `{n = 2, into = consumer}` after a pass's name, checked against its record.
class PassOptions {
public:
  PassOptions() = default;
  explicit PassOptions(AttributeMap values) : values(std::move(values)) {}

  int64_t getInt(StringRef name) const { return values.find(name)->second.asInt(); }
  bool getBool(StringRef name) const { return values.find(name)->second.asBool(); }
  /// The value of an option that is an identifier or text.
  StringRef getString(StringRef name) const { return values.find(name)->second.asString(); }
  const AttributeMap &getDict(StringRef name) const { return values.find(name)->second.asDict(); }

  const AttributeMap &all() const { return values; }

private:
  AttributeMap values; ///< every option of the record, given or default
};

struct PassOption {
  StringRef name;
  Attribute defaultValue; ///< also determines the kind
  StringRef doc;
  SmallVector<StringRef, 4> choices = {}; ///< what an identifier may be; empty: any
  int64_t most = INT32_MAX;               ///< an integer is between 0 and this
};

/// A pass is one file with one record; Passes.def lists them.
struct PassDef {
  StringRef name;    ///< verb-object
  StringRef summary; ///< one line
  /// Changes the module in place. Error: input that the pass cannot handle; the module is then not used again.
  Error (*run)(Module &module, const PassOptions &options);
  std::vector<PassOption> options = {};
  /// The commonAttributes() that it gives to ops. They describe the ops in their present form, so no pass that precedes
  /// this one in Passes.def may run after it: the pass manager refuses that.
  std::vector<StringRef> sets = {};
};

#define KILN_PASS(identifier) extern const PassDef identifier##Pass;
#include "passes/Passes.def"

/// Every record, in the order of Passes.def.
ArrayRef<const PassDef *> allPasses();

} // namespace kiln
