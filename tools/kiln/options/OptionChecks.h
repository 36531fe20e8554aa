//===- OptionChecks.h - checks of values of options -----------------------===//
//
// In this project's words, where CLI11 has its own or takes more.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// A check of a value: returns the error, `expected X, got 'Y'`, or an empty text.
using OptionCheck = std::function<std::string(const std::string &text)>;

/// One of some words.
OptionCheck oneOf(std::vector<std::string> words);

/// An integer as it is printed. CLI11 alone takes 010 for 8 and what is too large for the largest number.
OptionCheck integer(int64_t least, int64_t most = INT64_MAX);

/// A number of a range.
OptionCheck number(double least, double most);

/// A finite number above 0; NaN is refused too.
OptionCheck positiveNumber(double most = std::numeric_limits<double>::max());

std::string checkCount(const std::string &text);          ///< an integer from 1
std::string checkZeroOrMore(const std::string &text);     ///< an integer from 0
std::string checkSeed(const std::string &text);           ///< an integer from 0, of 64 bits
std::string checkTemperature(const std::string &text);    ///< a finite number from 0
std::string checkMinP(const std::string &text);           ///< a number from 0 to 1
std::string checkSamples(const std::string &text);        ///< an integer from 1 to mostSequences
std::string checkAlternatives(const std::string &text);   ///< an integer from 0 to 1024
std::vector<std::string> overflowWords();                 ///< error, stop, slide
std::string checkOverflow(const std::string &text);       ///< one of them
std::string checkDraftTokens(const std::string &text);    ///< an integer from 1 to mostDraftTokens, or auto
std::string checkLogitBias(const std::string &text);      ///< ID:BIAS
OptionCheck checkRepetitionPenalty();                     ///< a number from 0.01 to 100
OptionCheck checkLogitShift();                            ///< a number from -1000 to 1000
std::string checkCodeTargetName(const std::string &text); ///< a GPU, sm_80, or a virtual architecture, compute_80
std::string checkNotEmpty(const std::string &text);
/// Devices that some build knows: auto, cpu, emulate, cuda:N.
std::string checkDevice(const std::string &text);
std::string checkDevices(const std::string &text); ///< one or several
/// Orders of an emulated launch: in-order, reversed, random:SEED.
std::string checkSchedule(const std::string &text);

} // namespace kiln
