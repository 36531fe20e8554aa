//===- device.cuh - the device primitives of most kernels -----------------------===//
//
// A template that copies boxes of tensors includes barrier.cuh, tensor_copy.cuh and shared_product.cuh itself, and one
// whose blocks form clusters cluster.cuh.
//
//===----------------------------------------------------------------------===//
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
