//===- PassManager.h - running passes in order ------------------------------===//
#pragma once

#include "passes/Pass.h"

namespace kiln {

/// A pass with its options, as `--passes=a,b{n=2}` names them.
struct PassInvocation {
  const PassDef *pass;
  PassOptions options;

  /// `b{n = 2}`, with the options that differ from their defaults.
  std::string str() const;
};

/// Makes an invocation. Error: an unknown option, or a value of another kind than its default.
Expected<PassInvocation> makeInvocation(const PassDef &pass, const AttributeMap &options = {});
/// Makes an invocation from options in a text; an error is at its place.
Expected<PassInvocation> makeWrittenInvocation(const PassDef &pass, ArrayRef<NamedAttribute> options);

/// Parses `a,b{n=2,into=consumer}`; the options are attributes as in IR text. Error, at its place in `--passes`: text
/// that is not such a list, an unknown pass or option.
Expected<std::vector<PassInvocation>> parsePasses(StringRef text);

/// Observes a run; every hook may be empty.
struct PassInstrumentation {
  /// Called before a pass, with its input module.
  std::function<Error(const PassInvocation &, Module &)> before;
  /// Called after a pass, with the verified module.
  std::function<Error(const PassInvocation &, Module &)> after;
  /// Where to write a module that a pass made ill-formed, with the command line that shows it; empty: nowhere.
  std::string reproducerPath;
};

/// Runs the passes and the verifier after each. Error: an op that a later pass has already processed (PassDef::sets),
/// an error of a pass, or `pass NAME made ill-formed IR` with the verifier's message and the reproducer's path.
Error runPasses(Module &module, ArrayRef<PassInvocation> passes, const PassInstrumentation &instrumentation = {});

} // namespace kiln
