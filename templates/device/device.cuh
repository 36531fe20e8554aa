//===- device.cuh - all device primitives ---------------------------------------===//
#pragma once

#include "device/async_copy.cuh"
#include "device/atomic.cuh"
#include "device/base.cuh"
#include "device/block.cuh"
#include "device/grid.cuh"
#include "device/index.cuh"
#include "device/math.cuh"
#include "device/numeric.cuh"
#include "device/philox.cuh"
#include "device/shared.cuh"
#include "device/tensor_core.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"
#include "device/warpgroup.cuh"
