#include "tools/ladder/RungResult.h"

#include "runtime/measure/Benchmark.h"

namespace kiln {

double RungResult::median() const { return medianOf(seconds); }

std::optional<double> RungResult::shareOfLimit() const {
  return median() > 0 && cost.bytes > 0 ? std::optional(limitSeconds / median()) : std::nullopt;
}

std::string MeasuredPart::note(size_t rung) const {
  const RungResult &own = results[rung];
  if (!own.failure.empty())
    return "failed: " + own.failure;
  if (own.isWrong())
    return formatv("wrong: logits are off by {0:E1}, allowed is {1:E1}", own.error.largest, own.error.allowed);
  constexpr double noise = 1.01;
  bool isSlower = rung > 0 && !results[rung - 1].seconds.empty() && own.median() > noise * results[rung - 1].median();
  if (!isSlower)
    return "";
  StringRef why = reasons ? reasons->why(part->name, part->rungs[rung].name) : "";
  return "slower than the rung below: " + (why.empty() ? "not known why" : why.str());
}

} // namespace kiln
