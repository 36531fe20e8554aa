#include "tools/kiln/options/OptionChecks.h"

#include "tools/session/Engine.h"

#include "kernels/targets/Target.h"
#include "support/model/TargetName.h"
#include "support/text/Nearest.h"
#include "support/text/Number.h"

namespace kiln {

OptionCheck oneOf(std::vector<std::string> words) {
  std::string list = words.back();
  if (words.size() > 1)
    list = llvm::join(ArrayRef(words).drop_back(), ", ") + " or " + list;
  return [words = std::move(words), list = std::move(list)](const std::string &text) {
    return llvm::is_contained(words, text) ? "" : "expected " + list + ", got '" + text + "'" + didYouMean(text, words);
  };
}

template <class Int> static std::string checkInteger(const std::string &text, Int least, Int most) {
  Int value;
  if (!StringRef(text).getAsInteger(10, value) && value >= least && value <= most && text == std::to_string(value))
    return "";
  std::string range = " from " + std::to_string(least);
  if (most < std::numeric_limits<Int>::max())
    range += " to " + std::to_string(most);
  return "expected an integer" + range + ", got '" + text + "'";
}

OptionCheck integer(int64_t least, int64_t most) {
  return [=](const std::string &text) { return checkInteger(text, least, most); };
}

std::string checkCount(const std::string &text) { return checkInteger<int64_t>(text, 1, INT64_MAX); }
std::string checkZeroOrMore(const std::string &text) { return checkInteger<int64_t>(text, 0, INT64_MAX); }
std::string checkSeed(const std::string &text) { return checkInteger<uint64_t>(text, 0, UINT64_MAX); }

std::string checkNotEmpty(const std::string &text) { return text.empty() ? "expected a value, got ''" : ""; }

OptionCheck number(double least, double most) {
  return [=](const std::string &text) -> std::string {
    double value;
    if (!StringRef(text).getAsDouble(value) && value >= least && value <= most)
      return "";
    return "expected a number from " + numberText(least) + " to " + numberText(most) + ", got '" + text + "'";
  };
}

OptionCheck checkRepetitionPenalty() { return number(0.01, 100); }
OptionCheck checkLogitShift() { return number(-1000, 1000); }

std::string checkLogitBias(const std::string &text) {
  auto [id, bias] = StringRef(text).split(':');
  bool isGood = integer(0, INT32_MAX)(id.str()).empty() && checkLogitShift()(bias.str()).empty();
  return isGood ? "" : "expected a token id and a number from -1000 to 1000, ID:BIAS, got '" + text + "'";
}

OptionCheck positiveNumber(double most) {
  return [=](const std::string &text) -> std::string {
    double value;
    if (!StringRef(text).getAsDouble(value) && value > 0 && value <= most)
      return "";
    std::string limit =
        most < std::numeric_limits<double>::max() ? " and at most " + formatv("{0:F0}", most).str() : "";
    return "expected a number above 0" + limit + ", got '" + text + "'";
  };
}

std::string checkTemperature(const std::string &text) {
  double value;
  bool isGood = !StringRef(text).getAsDouble(value) && value >= 0 && std::isfinite(value);
  return isGood ? "" : "expected a number from 0, got '" + text + "'";
}

std::string checkMinP(const std::string &text) { return number(0, 1)(text); }

std::string checkSamples(const std::string &text) { return checkInteger<int64_t>(text, 1, mostSequences); }
std::string checkAlternatives(const std::string &text) { return checkInteger<int64_t>(text, 0, 1024); }
std::vector<std::string> overflowWords() { return {"error", "stop", "slide"}; }
std::string checkOverflow(const std::string &text) { return oneOf(overflowWords())(text); }

std::string checkDraftTokens(const std::string &text) {
  bool isGood = text == "auto" || integer(1, mostDraftTokens)(text).empty();
  return isGood ? ""
                : "expected auto or an integer from 1 to " + std::to_string(mostDraftTokens) + ", got '" + text + "'";
}

std::string checkCodeTargetName(const std::string &text) {
  std::vector<std::string> gpus;
  for (const Target &target : allTargets())
    gpus.push_back(target.name);
  if (!isPtxTarget(text))
    return oneOf(gpus)(text);
  const std::vector<std::string> known = ptxTargets();
  std::string plain = StringRef(text).rtrim('a').str();
  if (text != plain && llvm::is_contained(known, plain))
    return "expected " + plain + ", got '" + text + "': code that uses what one GPU alone has is no PTX for later ones";
  return oneOf(known)(text);
}

std::string checkDevice(const std::string &text) {
  return isDeviceName(text) ? "" : "expected auto, cpu, emulate or cuda:N, got '" + text + "'";
}

std::string checkDevices(const std::string &text) { return deviceListProblem(text); }

std::string checkSchedule(const std::string &text) {
  StringRef seed = text;
  uint64_t number;
  bool isKnown =
      text == "in-order" || text == "reversed" || (seed.consume_front("random:") && !seed.getAsInteger(10, number));
  return isKnown ? "" : "expected in-order, reversed or random:SEED, got '" + text + "'";
}

} // namespace kiln
