#include "plan/Entries.h"

namespace kiln {

bool PlanEntries::has(Entry entry) const {
  switch (entry) {
  case Entry::Prefill:
    return prefill.has_value();
  case Entry::Decode:
    return decode.has_value();
  case Entry::Verify:
    return verify.has_value();
  case Entry::Score:
    return score.has_value();
  case Entry::Sample:
    return sample.has_value();
  }
  llvm_unreachable("an entry");
}

StringRef PlanEntries::logitsOf(Entry entry) const {
  switch (entry) {
  case Entry::Prefill:
    return prefill->logits;
  case Entry::Decode:
    return decode->logits;
  case Entry::Verify:
    return verify->logits;
  case Entry::Score:
  case Entry::Sample:
    break;
  }
  llvm_unreachable("an entry with logits");
}

void PlanEntries::restrictTo(ArrayRef<Entry> kept) {
  auto drop = [&](Entry entry, auto &names) {
    if (!llvm::is_contained(kept, entry))
      names.reset();
  };
  drop(Entry::Prefill, prefill);
  drop(Entry::Decode, decode);
  drop(Entry::Verify, verify);
  drop(Entry::Score, score);
  drop(Entry::Sample, sample);
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
          {"settings", &entry.settings}, {"rows", &entry.rows},     {"ring", &entry.ring}};
}

} // namespace kiln
