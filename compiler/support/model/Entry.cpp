#include "support/model/Entry.h"

namespace kiln {

constexpr std::pair<Entry, StringRef> entryNames[] = {
    {Entry::Prefill, "prefill"}, {Entry::Decode, "decode"},     {Entry::Verify, "verify"},  {Entry::Score, "score"},
    {Entry::Sample, "sample"},   {Entry::Generate, "generate"}, {Entry::Accept, "accept"},  {Entry::Ngram, "ngram"},
    {Entry::Follow, "follow"},   {Entry::Collect, "collect"},   {Entry::Pretend, "pretend"}};

StringRef entryName(Entry entry) {
  return llvm::find_if(entryNames, [&](const auto &row) { return row.first == entry; })->second;
}

std::optional<Entry> findEntry(StringRef name) {
  for (const auto &[entry, own] : entryNames)
    if (own == name)
      return entry;
  return std::nullopt;
}

} // namespace kiln
