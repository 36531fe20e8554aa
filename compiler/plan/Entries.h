//===- Entries.h - the values that a runtime passes to a plan, and gets from it ---===//
#pragma once

#include "support/model/Entry.h"

namespace kiln {

// The names of a function's arguments, by their meaning, and of its result. Shapes use the plan's dims batch (B) and
// tokens (T); V is the pitch of a row of logits, at least the size of the vocabulary. Ids, lengths and positions are
// i32.

struct PrefillEntry {
  std::string tokens;  ///< [B,T] ids
  std::string lengths; ///< [B], each from 1 to T: later ids are padding
  std::string logits;  ///< [B,1,V], result

  auto operator<=>(const PrefillEntry &) const = default;
};

struct DecodeEntry {
  std::string tokens;    ///< [B,1] ids
  std::string positions; ///< [B], number of tokens of the sequence in the cache
  std::string logits;    ///< [B,1,V], result

  auto operator<=>(const DecodeEntry &) const = default;
};

struct VerifyEntry {
  std::string tokens;    ///< [B,K] ids, K from 2
  std::string positions; ///< [B], number of tokens of the sequence in the cache; K more fit into the context
  std::string logits;    ///< [B,K,V], result

  auto operator<=>(const VerifyEntry &) const = default;
};

struct ScoreEntry {
  std::string tokens;               ///< [B,T] ids
  std::string targets;              ///< [B,T] ids that might follow; others, like -1, are none
  std::string logProbabilities;     ///< [B,T] f32 of the targets, 0 for none; first result
  std::string bestTokens;           ///< [B,T] ids of the largest logits, the lowest of equals; second result
  std::string bestLogProbabilities; ///< [B,T] f32 of these; third result

  auto operator<=>(const ScoreEntry &) const = default;
};

// Functions that choose tokens, and those that guess them, have no results: they write their arguments. An argument has
// a part for each sequence, [B,…], and arguments of the same name are the same memory. Those that are not named here
// are scratch, zero before the first call.

struct SampleEntry {
  std::string logits;    ///< [B,V] f32, as @prefill and @decode leave them
  std::string tokens;    ///< the tokens of @decode
  std::string positions; ///< the positions of @decode
  std::string settings;  ///< [B,…] SamplingSettings of templates/sample/state.cuh, as words
  std::string rows;      ///< [B,…] SamplingRow of the same
  std::string ring;      ///< [B,…] in the host's memory: pairs of words from which the host reads tokens
  std::string text;      ///< [B,…] ids by position, up to the last chosen one
  std::string recent;    ///< [B,…] the last chosen ids
  std::string launches;  ///< [B] number of choices so far

  auto operator<=>(const SampleEntry &) const = default;
};

/// Chooses as many tokens as a call has tokens. Its arguments are those of @sample.
struct GenerateEntry {
  std::string logits; ///< [B,V] f32, where it leaves them

  auto operator<=>(const GenerateEntry &) const = default;
};

struct AcceptEntry {
  std::string logits;  ///< [B,K,V] f32, as @verify leaves them
  std::string guesses; ///< the tokens of @verify

  auto operator<=>(const AcceptEntry &) const = default;
};

struct NgramEntry {
  std::string guesses; ///< the tokens of @verify
  std::string starts;  ///< the positions of @verify

  auto operator<=>(const NgramEntry &) const = default;
};

/// Arguments of @decode and @sample of the plan of a draft.
struct FollowEntry {
  std::string settings, tokens, positions, rows, launches;

  auto operator<=>(const FollowEntry &) const = default;
};

struct CollectEntry {
  std::string recent, launches; ///< of @sample of the plan of a draft
  std::string guesses;          ///< the tokens of @verify
  std::string starts;           ///< the positions of @verify

  auto operator<=>(const CollectEntry &) const = default;
};

struct PretendEntry {
  std::string known;   ///< [B,…] ids that will be chosen, by position
  std::string odds;    ///< [B,2] probability of a right guess, in units of 2^-31, and a seed
  std::string guesses; ///< the tokens of @verify

  auto operator<=>(const PretendEntry &) const = default;
};

/// The entries of a language model's plan; empty for a plan of other functions.
struct PlanEntries {
  std::string batch;  ///< dim: number of sequences of a call
  std::string tokens; ///< dim: number of tokens of each sequence
  std::optional<PrefillEntry> prefill;
  std::optional<DecodeEntry> decode;
  std::optional<VerifyEntry> verify;
  std::optional<ScoreEntry> score;
  std::optional<SampleEntry> sample;
  std::optional<GenerateEntry> generate; ///< with sample only
  // With verify and sample only:
  std::optional<AcceptEntry> accept;
  std::optional<NgramEntry> ngram;
  std::optional<FollowEntry> follow;
  std::optional<CollectEntry> collect;
  std::optional<PretendEntry> pretend;

  auto operator<=>(const PlanEntries &) const = default;

  bool has(Entry entry) const;
  bool empty() const { return *this == PlanEntries(); }
  /// Drops the entries that are not among these.
  void restrictTo(ArrayRef<Entry> kept);
  /// Calls visit(entry, names) for each entry, with the optional names of it.
  template <class Visit> void forEach(Visit visit) { forEachOf(*this, visit); }
  template <class Visit> void forEach(Visit visit) const { forEachOf(*this, visit); }

  /// The name of the result of @prefill, @decode or @verify, which the plan has.
  StringRef logitsOf(Entry entry) const;

private:
  template <class Entries, class Visit> static void forEachOf(Entries &entries, Visit visit) {
    visit(Entry::Prefill, entries.prefill);
    visit(Entry::Decode, entries.decode);
    visit(Entry::Verify, entries.verify);
    visit(Entry::Score, entries.score);
    visit(Entry::Sample, entries.sample);
    visit(Entry::Generate, entries.generate);
    visit(Entry::Accept, entries.accept);
    visit(Entry::Ngram, entries.ngram);
    visit(Entry::Follow, entries.follow);
    visit(Entry::Collect, entries.collect);
    visit(Entry::Pretend, entries.pretend);
  }
};

/// The names of an entry, with their keys in plan.toml.
using EntryNames = SmallVector<std::pair<StringRef, std::string *>, 9>;
EntryNames namesOf(PrefillEntry &entry);
EntryNames namesOf(DecodeEntry &entry);
EntryNames namesOf(VerifyEntry &entry);
EntryNames namesOf(ScoreEntry &entry);
EntryNames namesOf(SampleEntry &entry);
EntryNames namesOf(GenerateEntry &entry);
EntryNames namesOf(AcceptEntry &entry);
EntryNames namesOf(NgramEntry &entry);
EntryNames namesOf(FollowEntry &entry);
EntryNames namesOf(CollectEntry &entry);
EntryNames namesOf(PretendEntry &entry);

} // namespace kiln
