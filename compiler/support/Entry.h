//===- Entry.h - the functions that a runtime calls -------------------------===//
//
// A language model's module and its plan have functions of these names; docs/plan.md says what they take and give.
// Other functions, which a module of a test may have, are compiled as well, but nobody calls them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

enum class Entry {
  Prefill, ///< prompts in, the logits behind each prompt's last token out; fills the cache
  Decode,  ///< one token a sequence in, its logits out; reads and extends the cache
  Score,   ///< texts in, the logits behind every token out; keeps nothing
  Sample,  ///< of the plan alone: logits in, the chosen tokens out
};

/// `prefill`
StringRef entryName(Entry entry);
/// Nothing if no entry has that name.
std::optional<Entry> findEntry(StringRef name);

} // namespace kiln
