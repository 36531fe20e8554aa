//===- Listings.h - the output of --list-ops and --list-passes ------------===//
#pragma once

#include "support/ADT.h"

/// The records of all ops as a Markdown table, a line each: the one in docs/ir.md.
void listOps(kiln::raw_ostream &os);

/// The records of all passes in the order of the pipeline, below each its options.
void listPasses(kiln::raw_ostream &os);
