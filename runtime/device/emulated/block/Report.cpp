#include "runtime/device/emulated/block/Report.h"

namespace kiln {

std::string nameThreads(ArrayRef<const Thread *> threads) {
  std::string text = threads.size() == 1 ? "thread " : "threads ";
  raw_string_ostream os(text);
  for (size_t i = 0; i < threads.size();) {
    size_t end = i + 1;
    while (end < threads.size() && threads[end]->thread == threads[end - 1]->thread + 1)
      ++end;
    os << (i ? ", " : "") << threads[i]->thread;
    if (end - i > 1)
      os << '-' << threads[end - 1]->thread;
    i = end;
  }
  return text;
}

std::string nameThreads(ArrayRef<const Thread *> threads, const ThreadBlock &reader) {
  const ThreadBlock *owner = threads.front()->owner;
  return nameThreads(threads) + (owner == &reader ? "" : " of " + owner->name());
}

std::map<ThreadPlace, std::vector<const Thread *>> groupByPlace(ArrayRef<const Thread *> threads) {
  std::map<ThreadPlace, std::vector<const Thread *>> groups;
  for (const Thread *thread : threads)
    groups[{thread->site.file ? thread->site.file : "", thread->site.line, thread->clusterRank}].push_back(thread);
  return groups;
}

Diagnostic diagnosticAt(Diagnostic::Severity severity, Site site, const EmulatedKernel &kernel, std::string message) {
  Diagnostic diagnostic(severity, {}, std::move(message));
  diagnostic.file = site.file && site.file != kernel.compiledSource ? site.file : kernel.source;
  diagnostic.line = site.line;
  return diagnostic;
}

} // namespace kiln
