//===- Inbox.h - memory through which ranks exchange values -----------------===//
//
// As exchange/ranks.cuh has it: every rank has an inbox, with words for each thread of each block that exchanges values
// with the same one of the other ranks.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// Threads of a block, and elements of a thread at a time, for which there are words.
constexpr int64_t inboxThreads = 256, inboxVec = 8;
/// Bytes of a value beside its stamp.
constexpr int64_t inboxWordBytes = 8;
/// The same of a value without a stamp.
constexpr int64_t inboxBitsBytes = 4;
/// Blocks that wait for other ranks, all of which any GPU runs at once.
constexpr int64_t mostExchangeBlocks = 128;
/// The same of blocks in clusters of more than two, which leave multiprocessors empty.
constexpr int64_t mostClusteredExchangeBlocks = 104;

/// Bytes of an inbox for so many blocks, in the op's module.
int64_t inboxBytes(const Op &op, int64_t blocks);

} // namespace kiln
