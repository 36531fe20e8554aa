//===- Cases.h - the configurations of the wgmma family that are tested -----------===//
//
// The tests that run these cases on the CPU and the one that compiles them for Hopper share this list.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/AttentionCase.h"

namespace kiln {

std::vector<AttentionCase> wgmmaFlashCases(); ///< wgmma_flash_attention

} // namespace kiln
