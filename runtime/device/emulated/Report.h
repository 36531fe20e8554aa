//===- Report.h - names of threads and places in errors -------------------===//
#pragma once

#include "runtime/device/emulated/ThreadBlock.h"
#include "support/Diagnostic.h"

namespace kiln {

/// `thread 5`, `threads 0-15, 17`.
std::string nameThreads(ArrayRef<const Thread *> threads);

/// Threads by the file and line where they are.
std::map<std::pair<std::string, unsigned>, std::vector<const Thread *>> groupBySite(ArrayRef<const Thread *> threads);

/// A diagnostic at `site`, or about the kernel's file as a whole if the site is not known.
Diagnostic diagnosticAt(Diagnostic::Severity severity, Site site, const EmulatedKernel &kernel, std::string message);

} // namespace kiln
