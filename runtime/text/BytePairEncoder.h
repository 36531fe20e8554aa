//===- BytePairEncoder.h - merging the bytes of a pre-token by rank ---------===//
//
// Sennrich et al. 2016, as GPT-2 applies it: as long as two neighbours can be merged, merge the pair of the
// lowest rank, the leftmost first. A heap of candidates over a linked list makes that O(n log n) for n bytes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/text/Vocabulary.h"

namespace kiln {

class BytePairEncoder {
public:
  /// Room for one pre-token, kept from one to the next so that a text costs few allocations.
  struct Scratch {
    struct Symbol {
      int32_t id;
      size_t previous;
      size_t next;
    };
    struct Candidate {
      uint32_t rank;
      size_t position; ///< of the left symbol
      auto operator<=>(const Candidate &) const = default;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap; ///< the smallest on top
  };

  explicit BytePairEncoder(const Vocabulary &vocabulary);

  /// Appends the tokens of one pre-token.
  void encode(StringRef preToken, std::vector<int32_t> &ids, Scratch &scratch) const;

private:
  void pushCandidate(size_t left, Scratch &scratch) const;
  void merge(Scratch::Candidate candidate, Scratch &scratch) const;

  std::array<int32_t, 256> byteTokens;
  std::vector<Vocabulary::Merge> merges;
  DenseMap<std::pair<int32_t, int32_t>, uint32_t> rankOfPair;
};

} // namespace kiln
