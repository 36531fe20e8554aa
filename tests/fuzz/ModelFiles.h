//===- ModelFiles.h - what must hold for every model in one file --------------===//
#pragma once

#include "Fuzz.h"

namespace kiln {

/// Opens a file as a model, packs its tensors, and reads its vocabulary as far as it has one. Errors name the file;
/// tensors are the file's bytes; the configuration is JSON; a vocabulary encodes and decodes.
void checkModelFile(StringRef path);

/// Reads the vocabulary of a file or of its folder; as above.
void checkVocabularyOf(StringRef path);

} // namespace kiln
