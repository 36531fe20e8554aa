//===- Input.h - prompts and texts from arguments, files and standard input -===//
#pragma once

#include "tools/kiln/CommandLine.h"

namespace kiln {

/// `1,2,3`, also separated by white space. Error: something that is no token id.
Expected<std::vector<int32_t>> parseTokens(StringRef text);

/// The token ids of every prompt, in the order given; one that is empty where there is none. Error: a text without a
/// vocabulary (`directory` is where one was looked for), what parseTokens reports (a UsageError unless the ids come
/// from standard input), an input that cannot be read.
Expected<std::vector<std::vector<int32_t>>> readPrompts(const PromptOptions &options, const Tokenizer *tokenizer,
                                                        StringRef directory);

} // namespace kiln
