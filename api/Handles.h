//===- Handles.h - what the handles of include/kiln.h are ---------------------===//
#pragma once

#include "api/Boundary.h"

#include "runtime/generation/Generator.h"
#include "tools/session/Engine.h"

#include <atomic>

namespace kiln::api {

/// A model and the device on which its sessions run.
struct OpenedModel {
  ModelSource source;
  std::string device;
  int64_t batch = 1;
  PlanModelInfo info;
  std::vector<int32_t> eosTokens;
};

} // namespace kiln::api

struct KilnModel {
  std::shared_ptr<const kiln::api::OpenedModel> opened;
};

struct KilnSession {
  std::shared_ptr<const kiln::api::OpenedModel> model; ///< outlives the engine
  std::unique_ptr<kiln::Engine> engine;
  bool canScore = false;
  std::atomic<bool> isBusy = false;
  // One entry per row.
  std::vector<int64_t> lengths; ///< the number of its tokens
  std::vector<std::vector<float>> logits;
};

struct KilnGenerations {
  std::vector<kiln::Generation> all;
};

struct KilnCancellation {
  std::atomic<bool> isCancelled = false;
};
