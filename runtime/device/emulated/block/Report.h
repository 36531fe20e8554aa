//===- Report.h - names of threads and places in errors -------------------===//
#pragma once

#include "runtime/device/emulated/block/ThreadBlock.h"
#include "support/Diagnostic.h"

namespace kiln {

/// `thread 5`, `threads 0-15, 17`.
std::string nameThreads(ArrayRef<const Thread *> threads);

/// The same for threads of one block, in a message about a block: `thread 5 of block (1,0,0)` if it is another one.
std::string nameThreads(ArrayRef<const Thread *> threads, const ThreadBlock &reader);

/// Where a thread is: file and line, then its block.
using ThreadPlace = std::tuple<std::string, unsigned, u32>;
std::map<ThreadPlace, std::vector<const Thread *>> groupByPlace(ArrayRef<const Thread *> threads);

/// A diagnostic at `site`, or about the kernel's file as a whole if the site is not known.
Diagnostic diagnosticAt(Diagnostic::Severity severity, Site site, const EmulatedKernel &kernel, std::string message);

} // namespace kiln
