//===- Cases.h - the configurations of the wgmma family that are tested -----------===//
//
// One list for the tests that run them on the CPU and for the one that compiles them for Hopper.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/AttentionCase.h"

namespace kiln {

std::vector<AttentionCase> wgmmaFlashCases(); ///< wgmma_flash_attention

} // namespace kiln
