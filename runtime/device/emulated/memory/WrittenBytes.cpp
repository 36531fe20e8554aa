#include "runtime/device/emulated/memory/WrittenBytes.h"

namespace kiln {

template <class Visit> bool WrittenBytes::anyWord(const void *address, size_t bytes, const Visit &visit) {
  const uintptr_t end = reinterpret_cast<uintptr_t>(address) + bytes;
  for (uintptr_t at = end - bytes; at < end;) {
    const uintptr_t first = at % 64, count = std::min<uintptr_t>(64 - first, end - at);
    if (visit(at / pageBytes, at % pageBytes / 64, (~uint64_t(0) >> (64 - count)) << first))
      return true;
    at += count;
  }
  return false;
}

void WrittenBytes::note(const void *address, size_t bytes) {
  anyWord(address, bytes, [&](uintptr_t number, size_t word, uint64_t bits) {
    if (!latest || number != latestNumber) {
      std::unique_ptr<Page> &page = pages[number];
      if (!page)
        page = std::make_unique<Page>();
      latest = page.get();
      latestNumber = number;
    }
    (*latest)[word] |= bits;
    return false;
  });
}

bool WrittenBytes::holdsAny(const void *address, size_t bytes) const {
  return anyWord(address, bytes, [&](uintptr_t number, size_t word, uint64_t bits) {
    auto page = pages.find(number);
    return page != pages.end() && ((*page->second)[word] & bits) != 0;
  });
}

void WrittenBytes::add(const WrittenBytes &others) {
  for (const auto &[number, theirs] : others.pages) {
    std::unique_ptr<Page> &own = pages[number];
    if (!own)
      own = std::make_unique<Page>();
    for (size_t i = 0; i < own->size(); ++i)
      (*own)[i] |= (*theirs)[i];
  }
}

void WrittenBytes::clear() {
  pages.clear();
  latest = nullptr;
}

} // namespace kiln
