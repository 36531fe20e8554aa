#include "tools/session/RankProcess.h"
#include "tools/session/UsageError.h"

#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/generation/UncachedModel.h"
#include "runtime/generation/ranks/RankFollower.h"
#include "runtime/generation/ranks/RankLeader.h"
#include "runtime/processes/RankProcesses.h"
#include "support/files/File.h"
#include "support/process/Process.h"

namespace kiln {

char ToldError::ID;

//===----------------------------------------------------------------------===//
// The place of this process
//===----------------------------------------------------------------------===//

/// What this program was called with, without its name.
static std::vector<std::string> programArguments() {
  std::vector<std::string> all;
  // The file reports no size.
  auto text = MemoryBuffer::getFileAsStream("/proc/self/cmdline");
  StringRef rest = text ? (*text)->getBuffer() : "";
  while (!rest.empty()) {
    auto [argument, others] = rest.split('\0');
    all.push_back(argument.str());
    rest = others;
  }
  if (!all.empty())
    all.erase(all.begin());
  return all;
}

/// Has a process for each rank do the work.
static Error startProcesses(const RankRequest &request) {
  int64_t ranks = request.ranks.value_or(1);
  if (isPlan(request.model)) {
    Expected<Plan> plan = readPlan(request.model);
    if (!plan)
      return plan.takeError();
    ranks = plan->ranks;
  }
  if (ranks == 1)
    return makeUsageError("--processes: expected a model that is split among several GPUs, got one on one GPU; give "
                          "--ranks N, or a plan that was compiled with it");
  Expected<int> exitCode = runRankProcesses(ranks, programArguments());
  if (!exitCode)
    return exitCode.takeError();
  return *exitCode == 0 ? Error::success() : llvm::make_error<ToldError>(*exitCode);
}

namespace {
/// Who reports the errors of this process.
struct Reporting {
  const RankPlace &place;

  /// Whether it is this process.
  bool isOwn(std::optional<int64_t> teller) const { return !place.isWatched || teller == place.rank; }

  Error report(Error error) const {
    std::optional<int64_t> teller = 0;
    llvm::visitErrors(error, [&](const llvm::ErrorInfoBase &info) {
      if (info.isA<LostRankError>())
        teller = static_cast<const LostRankError &>(info).teller;
    });
    if (!error || isOwn(teller))
      return error;
    llvm::consumeError(std::move(error));
    return llvm::make_error<ToldError>(untoldExitCode);
  }

  /// Ends the process, whatever it is doing.
  [[noreturn]] void end(const RankFailure &failure) const {
    if (!isOwn(failure.teller))
      _exit(untoldExitCode);
    std::string text;
    raw_string_ostream os(text);
    for (const Diagnostic &diagnostic : failure.diagnostics)
      diagnostic.print(os);
    endProcess(text);
  }
};
} // namespace

Error runAsRank(const RankRequest &request, function_ref<Error(RankGroup *)> work) {
  Expected<std::optional<RankPlace>> found = findRankPlace();
  if (!found)
    return found.takeError();
  if (!*found)
    return request.startsProcesses ? startProcesses(request) : work(nullptr);
  const RankPlace &place = **found;
  const Reporting reporting{place};
  RankGroup::Options options;
  options.version = request.version;
  options.onOverdue = [&](const RankFailure &failure) { reporting.end(failure); };
  Expected<std::unique_ptr<RankGroup>> group = RankGroup::join(place, std::move(options));
  if (!group)
    return reporting.report(group.takeError());
  Error error = work(group->get());
  const bool isUsage = error.isA<UsageError>();
  error = (*group)->end(std::move(error));
  return reporting.report(isUsage && error && !error.isA<UsageError>() ? asUsageError(std::move(error))
                                                                       : std::move(error));
}

Expected<std::vector<std::string>> resolveDevices(StringRef names, const RankGroup *group) {
  if (!group)
    return resolveDevices(names);
  const auto ranks = static_cast<size_t>(group->ranks()), rank = static_cast<size_t>(group->rank());
  std::vector<std::string> all = resolveDevices(names);
  if (all.front() == "cpu")
    return makeUsageError("--device " + names +
                          ": the reference executor, which runs all ranks in one process; a rank " +
                          "that is a process takes --device emulate or cuda:all");
  if (names == "emulate")
    return all;
  const auto localRank = static_cast<size_t>(group->localRank());
  if (names == "auto" || names == "cuda:all") {
    // A launcher may show each process a GPU of its own.
    const auto count = static_cast<size_t>(std::max(CudaDevice::count(), 1));
    if (count > 1 && localRank >= count)
      return makeUsageError("--device " + names + ": expected a GPU for each of " + Twine(ranks) + " ranks, got " +
                            Twine(count));
    return std::vector{"cuda:" + std::to_string(count > 1 ? localRank : 0)};
  }
  if (all.size() != ranks)
    return makeUsageError("--device " + names + ": expected " + Twine(ranks) + " devices, one for each rank of the " +
                          "model, got " + Twine(all.size()));
  return std::vector{all[rank]};
}

Error checkRanks(int64_t ranks, const RankGroup &group) {
  if (ranks == group.ranks())
    return Error::success();
  return makeUsageError("--ranks: expected a model that is split among as many GPUs as processes were started, " +
                        Twine(group.ranks()) + ", got one of " + Twine(ranks) + (ranks == 1 ? " rank" : " ranks"));
}

Error refuseRankProcesses() {
  Expected<std::optional<RankPlace>> place = findRankPlace();
  if (!place)
    return place.takeError();
  if (!*place)
    return Error::success();
  return makeUsageError("--ranks: this command has a thread for each rank; start it once, without a launcher (" +
                        (*place)->variable + " of the environment is " + Twine((*place)->rank) + ")");
}

//===----------------------------------------------------------------------===//
// What must be the same
//===----------------------------------------------------------------------===//

static std::string shortDigest(StringRef bytes) { return sha256Hex(bytes).substr(0, 16); }

/// Of the plan and the text of its kernels. Error: a file cannot be read.
static Expected<std::string> planDigest(const Plan &plan, const KernelFiles &files) {
  std::string all = writePlan(plan);
  for (const PlanKernel &kernel : plan.kernels) {
    Expected<std::string> source = files.text(kernel.name);
    if (!source)
      return source.takeError();
    all += *source;
  }
  return shortDigest(all);
}

/// Of evenly spread pieces of each tensor: reading all of a large checkpoint would take longer than a rank's share.
/// Error: a missing or misshapen tensor.
static Expected<std::string> weightsDigest(const Plan &plan, const ModelSource &source) {
  if (source.randomSeed)
    return "random " + std::to_string(*source.randomSeed);
  constexpr size_t pieces = 16, pieceBytes = 4096;
  std::string all;
  for (const PlanWeight &weight : plan.weights)
    for (const WeightRecipe::Tensor &tensor : weight.recipe.tensors()) {
      Expected<TensorView> view = source.weights->tensor(tensor.name, tensor.shape);
      if (!view)
        return view.takeError();
      all += tensor.name.str() + " " + dtypeName(view->dtype).str();
      for (size_t piece = 0; piece < pieces; ++piece) {
        const size_t from = view->bytes.size() / pieces * piece;
        all += " " + std::to_string(llvm::xxh3_64bits(view->bytes.drop_front(from).take_front(pieceBytes)));
      }
    }
  return shortDigest(all);
}

/// Compares the ranks, all of which find the same difference. Error: the first one.
static Error checkSame(RankGroup &group, const Device &device, const std::string &plan, const std::string &weights) {
  const std::array<StringRef, 3> names = {"plan", "weights", "arguments"};
  RankMessageWriter writer;
  writer.putText(plan);
  writer.putText(weights);
  writer.putText(llvm::join(programArguments(), " "));
  writer.putText(device.identity());
  Expected<std::vector<RankMessage>> all = group.gather({RankMessageKind::Parts, std::move(writer.bytes)});
  if (!all)
    return all.takeError();
  std::vector<std::vector<std::string>> facts;
  for (const RankMessage &message : *all) {
    RankMessageReader reader(message.bytes);
    std::vector<std::string> &own = facts.emplace_back();
    while (!reader.isAtEnd())
      own.push_back(reader.getText());
    own.resize(names.size() + 1);
  }
  std::map<std::string, size_t> rankOf;
  for (const auto &[rank, own] : llvm::enumerate(facts)) {
    for (const auto &[name, got, expected] : llvm::zip(names, own, facts.front()))
      if (got != expected)
        return group.fail("rank " + Twine(rank) + ": expected the " + name + " of rank 0, " + expected + ", got " +
                          got);
    if (auto [other, isNew] = rankOf.try_emplace(own.back(), rank); !own.back().empty() && !isNew)
      return group.fail("rank " + Twine(rank) + ": expected a GPU of its own, got that of rank " +
                        Twine(other->second));
  }
  return Error::success();
}

//===----------------------------------------------------------------------===//
// The engine of a rank
//===----------------------------------------------------------------------===//

namespace {

class RankProcessEngine : public Engine {
public:
  RankProcessEngine(RankGroup &group, std::unique_ptr<Device> device, std::unique_ptr<Executor> executor)
      : group(group), device(std::move(device)), rankExecutor(std::move(executor)), leader(*rankExecutor, group) {
    group.setOnFailure([own = rankExecutor.get()] { own->stopWaiting(); });
  }
  ~RankProcessEngine() override { group.setOnFailure(nullptr); }

  LanguageModel &model() override { return modelOf(*rankExecutor, leader, uncached); }
  Scorer &scorer() override { return leader; }
  Executor *executor() override { return rankExecutor.get(); }
  Error onRanks(function_ref<Error(size_t, Executor &)>) override {
    llvm_unreachable("other processes cannot call a function of this one");
  }
  Error serve() override { return followCalls(*rankExecutor, group); }
  Error finish(Error error) override {
    if (!error)
      error = rankExecutor->leaveRanks();
    return group.end(std::move(error));
  }

private:
  RankGroup &group;
  std::unique_ptr<Device> device;
  std::unique_ptr<Executor> rankExecutor;
  RankLeader leader;
  UncachedModel uncached{leader}; ///< used if the plan has no cache
};

/// Gives the other ranks the handles of this one's memory, and gets theirs.
Expected<std::vector<Executor::RankHandles>> shareHandles(RankGroup &group, const Executor::RankHandles &own) {
  RankMessage part{RankMessageKind::Parts};
  RankMessageWriter writer;
  for (const MemoryHandle *handle : {&own.inbox, &own.arena}) {
    writer.putText(handle->bytes);
    writer.put(handle->descriptor.isOpen());
    if (handle->descriptor.isOpen())
      part.descriptors.push_back(handle->descriptor.duplicate());
  }
  part.bytes = std::move(writer.bytes);
  Expected<std::vector<RankMessage>> all = group.gather(part);
  if (!all)
    return all.takeError();
  std::vector<Executor::RankHandles> handles;
  for (RankMessage &message : *all) {
    RankMessageReader reader(message.bytes);
    Executor::RankHandles &others = handles.emplace_back();
    size_t next = 0;
    for (MemoryHandle *handle : {&others.inbox, &others.arena}) {
      handle->bytes = reader.getText();
      if (reader.get<bool>() && next < message.descriptors.size())
        handle->descriptor = std::move(message.descriptors[next++]);
    }
  }
  return handles;
}

} // namespace

Expected<std::unique_ptr<Engine>> openRankProcess(const ModelSource &source, const EngineOptions &options,
                                                  std::unique_ptr<Device> device, const Plan &plan,
                                                  const KernelFiles &files, const Executor::Options &capacity) {
  RankGroup &group = *options.group;
  if (group.rank() == 0) {
    RankMessageWriter writer;
    writer.put(capacity.batch);
    if (Error error = group.send({RankMessageKind::Call, std::move(writer.bytes)}))
      return error;
  }
  Expected<std::string> ofPlan = planDigest(plan, files);
  if (!ofPlan)
    return ofPlan.takeError();
  Expected<std::string> ofWeights = weightsDigest(plan, source);
  if (!ofWeights)
    return ofWeights.takeError();
  if (Error error = checkSame(group, *device, *ofPlan, *ofWeights))
    return error;
  auto executor = Executor::createRank(*device, group.rank(), plan, files, *source.weights, capacity,
                                       [&](const Executor::RankHandles &own) { return shareHandles(group, own); });
  if (!executor)
    return executor.takeError();
  return std::make_unique<RankProcessEngine>(group, std::move(device), std::move(*executor));
}

Error followRank(const ModelSource &source, EngineOptions options) {
  // The first rank may find that there is nothing to do, before it opens its device.
  Expected<RankMessage> message = options.group->receive();
  if (!message)
    return message.takeError();
  if (message->kind == RankMessageKind::End)
    return Error::success();
  RankMessageReader reader(message->bytes);
  options.batch = reader.get<int64_t>();
  options.onNote = [](StringRef) {};
  Expected<std::unique_ptr<Engine>> engine = openEngine(source, options);
  if (!engine)
    return engine.takeError();
  return (*engine)->finish((*engine)->serve());
}

} // namespace kiln
