//===- IrSupport.h - IR from text, for unit tests ---------------------------===//
#pragma once

#include "TestSupport.h"

#include "ir/Parser.h"
#include "ir/Printer.h"
#include "ir/Verifier.h"
#include "ops/OpTable.h"

namespace kiln {

/// A test on a module that it parses from text.
class IrTest : public testing::Test {
protected:
  Module &parse(StringRef text) {
    module = unwrap(parseModule(sources.add("test.kiln", text.str()), sources, opTable()));
    return *module;
  }

  /// The op of a function, or of its regions, that defines `%name`.
  static Op &op(Module &module, StringRef function, StringRef name) {
    Op *found = nullptr;
    walk(module.findFunction(function)->body, [&](Op &candidate) {
      for (const auto &result : candidate.results())
        if (result->name == name)
          found = &candidate;
    });
    EXPECT_TRUE(found) << "no op defines %" << name.str();
    return *found;
  }

  SourceManager sources;
  std::unique_ptr<Module> module;
};

} // namespace kiln
