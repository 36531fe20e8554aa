//===- CudaEvent.h - a mark in a stream ---------------------------------------===//
#pragma once

#include "runtime/device/Device.h"

#include <cuda_runtime_api.h>

namespace kiln {

struct CudaEvent : DeviceEvent {
  ~CudaEvent() override {
    if (event)
      cudaEventDestroy(event);
  }
  cudaEvent_t event = nullptr;
};

} // namespace kiln
