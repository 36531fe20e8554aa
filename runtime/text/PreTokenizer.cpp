#include "runtime/text/PreTokenizer.h"

#include "support/text/Utf8.h"

#include <utf8proc.h>

namespace kiln {

CharacterClass classify(char32_t scalar) {
  if ((scalar >= '\t' && scalar <= '\r') || scalar == 0x85)
    return CharacterClass::Space;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(scalar))) {
  case UTF8PROC_CATEGORY_LU:
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
    return CharacterClass::Letter;
  case UTF8PROC_CATEGORY_ND:
  case UTF8PROC_CATEGORY_NL:
  case UTF8PROC_CATEGORY_NO:
    return CharacterClass::Number;
  case UTF8PROC_CATEGORY_ZS:
  case UTF8PROC_CATEGORY_ZL:
  case UTF8PROC_CATEGORY_ZP:
    return CharacterClass::Space;
  default:
    return CharacterClass::Other;
  }
}

static CharacterClass firstClass(StringRef text) { return classify(firstCharacter(text).scalar); }

/// A maximal run of characters of one class at the start of a text.
struct Run {
  size_t length = 0;     ///< bytes
  size_t beforeLast = 0; ///< bytes up to the last character
};

static Run takeRun(StringRef text, CharacterClass wanted) {
  Run run;
  while (run.length < text.size()) {
    Utf8Character character = firstCharacter(text.drop_front(run.length));
    if (classify(character.scalar) != wanted)
      break;
    run.beforeLast = run.length;
    run.length += character.length;
  }
  return run;
}

/// Length of the contraction that the text starts with, 0 if none.
static size_t contractionLength(StringRef text) {
  if (!text.starts_with("'"))
    return 0;
  for (StringRef contraction : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(contraction))
      return contraction.size();
  return 0;
}

StringRef firstPreToken(StringRef text) {
  if (size_t length = contractionLength(text))
    return text.take_front(length);

  // ` ?` before a run of letters, of numbers, or of neither: one plain space belongs to the run.
  size_t lead = text.front() == ' ' && text.size() > 1 ? 1 : 0;
  StringRef afterLead = text.drop_front(lead);
  CharacterClass runClass = firstClass(afterLead);
  if (runClass != CharacterClass::Space)
    return text.take_front(lead + takeRun(afterLead, runClass).length);

  // `\s+(?!\S)`: the last character of white space before other text belongs to that text. A single one is matched by
  // `\s+`.
  Run spaces = takeRun(text, CharacterClass::Space);
  bool isFollowed = spaces.length < text.size();
  return text.take_front(isFollowed && spaces.beforeLast > 0 ? spaces.beforeLast : spaces.length);
}

} // namespace kiln
