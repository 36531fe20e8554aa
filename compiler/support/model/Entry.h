//===- Entry.h - the functions that a runtime calls -------------------------===//
//
// A language model's module and plan have functions with these names; docs/plan.md describes their arguments and
// results. Other functions, as in a test's module, are compiled as well, but never called.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

enum class Entry {
  Prefill, ///< takes prompts, gives the logits after each prompt's last token; fills the cache
  Decode,  ///< takes one token per sequence, gives its logits; reads and extends the cache
  Verify,  ///< takes several tokens per sequence, gives the logits of each; else as Decode
  Score,   ///< takes texts, gives the logits after every token; keeps nothing
  // Only in plans:
  Sample,   ///< takes logits, gives the chosen tokens
  Generate, ///< takes one token per sequence, chooses several next ones: @decode and @sample in one kernel
  Accept,   ///< takes logits and guesses, gives the chosen tokens up to the first that was not guessed
  Ngram,    ///< guesses from the text
  Follow,   ///< tells a model that guesses where the text is
  Collect,  ///< takes the guesses from that model
  Pretend,  ///< replaces guesses by ones that are right with a given probability
};

/// Those that guess tokens and check guesses, of a plan for speculation.
inline constexpr Entry speculationEntries[] = {Entry::Accept, Entry::Ngram, Entry::Follow, Entry::Collect,
                                               Entry::Pretend};

/// The function's name, like `prefill`.
StringRef entryName(Entry entry);
/// The entry of that name, if there is one.
std::optional<Entry> findEntry(StringRef name);

} // namespace kiln
