#include "runtime/text/BytePairEncoder.h"

#include <algorithm>

namespace kiln {

static constexpr size_t none = ~size_t(0);
static constexpr int32_t consumed = -1; ///< the id of a symbol that was merged into its left neighbour

BytePairEncoder::BytePairEncoder(const Vocabulary &vocabulary)
    : byteTokens(vocabulary.byteTokens), merges(vocabulary.merges), rankOfPair(merges.size()) {
  for (uint32_t rank = 0; rank < merges.size(); ++rank)
    rankOfPair.try_emplace({merges[rank].left, merges[rank].right}, rank);
}

void BytePairEncoder::pushCandidate(size_t left, Scratch &scratch) const {
  size_t right = scratch.symbols[left].next;
  if (right == none)
    return;
  auto known = rankOfPair.find({scratch.symbols[left].id, scratch.symbols[right].id});
  if (known == rankOfPair.end())
    return;
  scratch.heap.push_back({known->second, left});
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), std::greater<>());
}

void BytePairEncoder::merge(Scratch::Candidate candidate, Scratch &scratch) const {
  const Vocabulary::Merge &rule = merges[candidate.rank];
  Scratch::Symbol &left = scratch.symbols[candidate.position];
  // A candidate is stale if one of its two symbols has since been merged elsewhere.
  if (left.id != rule.left || left.next == none || scratch.symbols[left.next].id != rule.right)
    return;
  Scratch::Symbol &right = scratch.symbols[left.next];
  left.id = rule.result;
  left.next = right.next;
  right.id = consumed;
  if (left.next != none)
    scratch.symbols[left.next].previous = candidate.position;
  pushCandidate(candidate.position, scratch);
  if (left.previous != none)
    pushCandidate(left.previous, scratch);
}

void BytePairEncoder::encode(StringRef preToken, std::vector<int32_t> &ids, Scratch &scratch) const {
  scratch.symbols.clear();
  scratch.heap.clear();
  for (size_t i = 0; i < preToken.size(); ++i)
    scratch.symbols.push_back({byteTokens[static_cast<uint8_t>(preToken[i])], i == 0 ? none : i - 1,
                               i + 1 == preToken.size() ? none : i + 1});
  for (size_t i = 0; i < preToken.size(); ++i)
    pushCandidate(i, scratch);
  while (!scratch.heap.empty()) {
    std::pop_heap(scratch.heap.begin(), scratch.heap.end(), std::greater<>());
    Scratch::Candidate best = scratch.heap.back();
    scratch.heap.pop_back();
    merge(best, scratch);
  }
  // The first symbol is never consumed: a merge consumes the right one of two.
  for (size_t i = preToken.empty() ? none : 0; i != none; i = scratch.symbols[i].next)
    ids.push_back(scratch.symbols[i].id);
}

} // namespace kiln
