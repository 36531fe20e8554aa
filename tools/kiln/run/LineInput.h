//===- LineInput.h - lines that a user enters -----------------------------===//
#pragma once

#include "tools/kiln/run/Interrupts.h"

namespace kiln {

/// Lines of standard input, one after the other.
class LineInput {
public:
  enum class Event {
    Line,
    Dropped,   ///< an interrupt has dropped what was entered of a line
    Interrupt, ///< the same, when nothing was
    End
  };

  /// On a terminal, with editing and a history of lines by libedit, if the machine has it. `interrupts` must outlive
  /// the object.
  static std::unique_ptr<LineInput> open(Interrupts &interrupts);
  virtual ~LineInput() = default;

  /// Waits for a line, which becomes `line`, without its newline. On a terminal, standard error shows a prompt. At the
  /// end of the input, a line without newline comes first. Error: standard input cannot be read.
  virtual Expected<Event> read(std::string &line) = 0;
};

} // namespace kiln
