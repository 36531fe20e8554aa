#include "runtime/device/emulated/block/Scheduler.h"

#include <thread>

namespace kiln {

namespace {
/// Thrown through a kernel's frames to end a thread.
struct Unwinding {};
} // namespace

/// If every thread has waited for this many rounds without any progress, none will ever go on.
static constexpr size_t maxFruitlessRounds = 1000;

void ReadyQueue::reset(size_t capacity, const LaunchOptions &options, uint64_t stream) {
  ring.resize(capacity);
  first = count = 0;
  isChosen = false;
  schedule = options.schedule;
  state = options.seed * 0x9e3779b97f4a7c15 + stream;
}

/// SplitMix64 (Steele, Lea, Flood 2014).
uint64_t ReadyQueue::random() {
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

void ReadyQueue::push(Thread *thread) {
  assert(count < ring.size() && "a thread is ready twice");
  ring[(first + count++) % ring.size()] = thread;
}

void ReadyQueue::push(ArrayRef<Thread *> group) {
  if (schedule == Schedule::Reversed)
    for (Thread *thread : llvm::reverse(group))
      push(thread);
  else
    for (Thread *thread : group)
      push(thread);
}

Thread *ReadyQueue::next() {
  if (schedule == Schedule::Random && !isChosen) {
    std::swap(ring[first], ring[(first + random() % count) % ring.size()]);
    isChosen = true;
  }
  return ring[first];
}

size_t ReadyQueue::choose(size_t count) {
  if (schedule == Schedule::Random)
    return random() % count;
  return schedule == Schedule::Reversed ? count - 1 : 0;
}

void ReadyQueue::pop() {
  first = (first + 1) % ring.size();
  --count;
  isChosen = false;
}

Scheduler::~Scheduler() {
  isQuitting = true;
  for (const std::unique_ptr<Runner> &runner : runners)
    runner->fiber.resume();
}

std::vector<Diagnostic> Scheduler::run(const EmulatedLaunch &newLaunch, ArrayRef<uint64_t> numbers) {
  launch = &newLaunch;
  current = launch->kernel->current();
  failure.clear();
  fruitlessTurns = copiesUnderWay = rankTurns = 0;
  unfinished = numbers.size() * launch->options.cluster * launch->blockThreads;
  runningCount = numbers.size();
  while (clusters.size() < runningCount)
    clusters.push_back(std::make_unique<BlockCluster>());

  std::vector<Thread *> threads;
  threads.reserve(unfinished);
  for (auto [cluster, number] : llvm::zip(running(), numbers)) {
    cluster->reset(*this, *launch, number);
    for (const std::unique_ptr<ThreadBlock> &block : cluster->allBlocks())
      for (Thread &thread : block->allThreads())
        threads.push_back(&thread);
  }
  ready.reset(threads.size(), launch->options, numbers.front());
  ready.push(threads);

  while (!hasFailed() && (!ready.empty() || deliverCopy())) {
    if (ready.empty())
      continue;
    if (copiesUnderWay > 0 && ready.happensEarly())
      deliverCopy();
    Thread *thread = ready.next();
    ready.pop();
    switchTo(*thread);
  }
  if (!hasFailed() && unfinished > 0)
    for (const std::unique_ptr<BlockCluster> &cluster : running())
      if (!hasFailed())
        cluster->reportDeadlock();
  if (hasFailed())
    unwindAll();
  *current = nullptr;
  return std::move(failure);
}

bool Scheduler::deliverCopy() {
  if (copiesUnderWay == 0)
    return false;
  for (const std::unique_ptr<BlockCluster> &cluster : running())
    if (size_t count = cluster->copies.size()) {
      cluster->deliverCopy(ready.choose(count));
      --copiesUnderWay;
      return true;
    }
  return false;
}

void Scheduler::switchTo(Thread &thread) {
  if (!thread.runner) {
    Runner *runner = takeRunner();
    if (!runner)
      return setFailure({{Diagnostic::Severity::Error, {}, "no memory for the stacks of the launch's threads"}});
    thread.runner = runner;
    runner->thread = &thread;
  }
  *current = &thread;
  thread.state = Thread::State::Running;
  thread.runner->fiber.resume();
}

Runner *Scheduler::takeRunner() {
  if (idle.empty()) {
    void *stack = stacks.take();
    if (!stack)
      return nullptr;
    // The body finds the runner by its index, as the pointer is stored before the fiber first runs.
    size_t place = runners.size();
    runners.push_back(std::make_unique<Runner>(stack, [this, place] { runThreads(*runners[place]); }));
    return runners.back().get();
  }
  Runner *runner = idle.back();
  idle.pop_back();
  return runner;
}

/// The body of every runner.
void Scheduler::runThreads(Runner &runner) {
  while (!isQuitting) {
    start(runner, *runner.thread);
    while (Thread *thread = takeUnstarted())
      start(runner, *thread);
    idle.push_back(&runner);
    runner.fiber.suspend();
  }
}

/// The next thread, if it has not started yet and so can run on any stack.
Thread *Scheduler::takeUnstarted() {
  if (hasFailed() || ready.empty() || ready.next()->runner)
    return nullptr;
  Thread *thread = ready.next();
  ready.pop();
  return thread;
}

/// Runs a thread from its beginning to its end.
void Scheduler::start(Runner &runner, Thread &thread) {
  runner.thread = &thread;
  thread.runner = &runner;
  thread.state = Thread::State::Running;
  *current = &thread;
  bool isUnwound = false;
  try {
    launch->kernel->call(launch->args);
  } catch (const Unwinding &) {
    isUnwound = true;
  }
  thread.runner = nullptr;
  thread.state = Thread::State::Finished;
  runner.thread = nullptr;
  --unfinished;
  noteProgress();
  if (!runner.fiber.isStackIntact())
    thread.owner->reportStackOverflow(thread);
  if (!isUnwound)
    thread.owner->finish(thread);
}

void Scheduler::setFailure(std::vector<Diagnostic> diagnostics) {
  if (!hasFailed())
    failure = std::move(diagnostics);
}

void Scheduler::unwind() { throw Unwinding(); }

void Scheduler::wait(Thread &thread) {
  // A stack pointer outside the stack shows an overflow before the stack's mark is checked.
  if (!thread.runner->fiber.contains(__builtin_frame_address(0)))
    thread.owner->reportStackOverflow(thread);
  else
    thread.runner->fiber.suspend();
  if (hasFailed())
    unwind();
}

void Scheduler::release(ArrayRef<Thread *> group) {
  for (Thread *thread : group)
    thread->state = Thread::State::Ready;
  ready.push(group);
  noteProgress();
}

bool Scheduler::yield(Thread &thread) {
  if (++fruitlessTurns > maxFruitlessRounds * unfinished)
    return false;
  // A round in which every thread has only waited for others' writes: the next one may need bytes of copies. They
  // arrive until another thread can go on, as when none is ready.
  if (fruitlessTurns % (unfinished + 1) == 0)
    while (fruitlessTurns > 0 && deliverCopy())
      ;
  requeue(thread);
  return true;
}

void Scheduler::requeue(Thread &thread) {
  thread.state = Thread::State::Ready;
  ready.push(&thread);
  wait(thread);
}

void Scheduler::yieldToRanks(Thread &thread) {
  // What other threads wait for may depend on the other rank, too; how long to wait for that says its patience.
  noteProgress();
  // In a round in which every thread has only waited, bytes of copies arrive, or the core is free for the other ranks.
  if (++rankTurns % (unfinished + 1) == 0 && !deliverCopy())
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  requeue(thread);
}

void Scheduler::unwindAll() {
  for (const std::unique_ptr<BlockCluster> &cluster : running())
    for (const std::unique_ptr<ThreadBlock> &block : cluster->allBlocks())
      for (Thread &thread : block->allThreads())
        if (thread.runner)
          switchTo(thread);
}

} // namespace kiln
