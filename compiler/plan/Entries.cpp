#include "plan/Entries.h"

namespace kiln {

bool PlanEntries::has(Entry entry) const {
  bool isThere = false;
  forEach([&](Entry other, const auto &names) { isThere |= other == entry && names.has_value(); });
  return isThere;
}

StringRef PlanEntries::logitsOf(Entry entry) const {
  switch (entry) {
  case Entry::Prefill:
    return prefill->logits;
  case Entry::Decode:
    return decode->logits;
  case Entry::Verify:
    return verify->logits;
  default:
    break;
  }
  llvm_unreachable("an entry with logits");
}

void PlanEntries::restrictTo(ArrayRef<Entry> kept) {
  forEach([&](Entry entry, auto &names) {
    if (!llvm::is_contained(kept, entry))
      names.reset();
  });
}

EntryNames namesOf(PrefillEntry &entry) {
  return {{"tokens", &entry.tokens}, {"lengths", &entry.lengths}, {"logits", &entry.logits}};
}

EntryNames namesOf(DecodeEntry &entry) {
  return {{"tokens", &entry.tokens}, {"positions", &entry.positions}, {"logits", &entry.logits}};
}

EntryNames namesOf(VerifyEntry &entry) {
  return {{"tokens", &entry.tokens}, {"positions", &entry.positions}, {"logits", &entry.logits}};
}

EntryNames namesOf(ScoreEntry &entry) {
  return {{"tokens", &entry.tokens},
          {"targets", &entry.targets},
          {"log_probabilities", &entry.logProbabilities},
          {"best_tokens", &entry.bestTokens},
          {"best_log_probabilities", &entry.bestLogProbabilities}};
}

EntryNames namesOf(SampleEntry &entry) {
  return {{"logits", &entry.logits},     {"tokens", &entry.tokens}, {"positions", &entry.positions},
          {"settings", &entry.settings}, {"rows", &entry.rows},     {"ring", &entry.ring},
          {"text", &entry.text},         {"recent", &entry.recent}, {"launches", &entry.launches}};
}

EntryNames namesOf(GenerateEntry &entry) { return {{"logits", &entry.logits}}; }

EntryNames namesOf(AcceptEntry &entry) { return {{"logits", &entry.logits}, {"guesses", &entry.guesses}}; }

EntryNames namesOf(NgramEntry &entry) { return {{"guesses", &entry.guesses}, {"starts", &entry.starts}}; }

EntryNames namesOf(FollowEntry &entry) {
  return {{"settings", &entry.settings},
          {"tokens", &entry.tokens},
          {"positions", &entry.positions},
          {"rows", &entry.rows},
          {"launches", &entry.launches}};
}

EntryNames namesOf(CollectEntry &entry) {
  return {
      {"recent", &entry.recent}, {"launches", &entry.launches}, {"guesses", &entry.guesses}, {"starts", &entry.starts}};
}

EntryNames namesOf(PretendEntry &entry) {
  return {{"known", &entry.known}, {"odds", &entry.odds}, {"guesses", &entry.guesses}};
}

} // namespace kiln
