//===- ranks.cuh - the GPUs that share a kernel that decodes all layers ---------------===//
//
// Several GPUs, the ranks, may run the kernel of one model at the same time, each with its share of the heads, of the
// hidden channels and of the vocabulary. Then clusters post their sums to the mailboxes of all ranks, by plain stores
// into each other's memory (device/inbox.cuh), and each rank adds up the sums of all clusters of all ranks, in one
// order: a sum over ranks costs no step of its own, only the way over the link.
//
// A rank that has failed posts nothing any more. Then the host sets a word, and those that wait end.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/inbox.cuh"
#include "device/mailbox.cuh"
#include "exchange/ranks.cuh"
#include "parameter_array.cuh"

namespace kiln {

/// The words of the mailboxes of all ranks.
template <int kRanks> struct DecodeRanks {
  const PerRank<StampedValue *, kRanks> &mails;
  const u32 *stop;
  int rank; ///< this one

  KILN_DEVICE StampedValue *words(int of) const { return mails[of]; }
  KILN_DEVICE void post(StampedValue *target, const Vec<float, 2> &values, u32 stamp,
                        Site site = Site::current()) const {
    postToRank(target, values, stamp, site);
  }
  KILN_DEVICE StampedPair peek(const StampedValue *source, Site site = Site::current()) const {
    return peekFromRanks(source, site);
  }
  KILN_DEVICE void retry(u32 tries, Site site = Site::current()) const { retryForRanks(tries, stop, site); }
};

/// One GPU alone.
template <> struct DecodeRanks<1> {
  StampedValue *mail;
  static constexpr int rank = 0;

  KILN_DEVICE DecodeRanks(StampedValue *mail) : mail(mail) {}
  KILN_DEVICE StampedValue *words(int) const { return mail; }
  KILN_DEVICE void post(StampedValue *target, const Vec<float, 2> &values, u32 stamp,
                        Site site = Site::current()) const {
    kiln::post(target, values, stamp, site);
  }
  KILN_DEVICE StampedPair peek(const StampedValue *source, Site site = Site::current()) const {
    return kiln::peek(source, site);
  }
  KILN_DEVICE void retry(u32, Site site = Site::current()) const { kiln::retry(site); }
};

} // namespace kiln
