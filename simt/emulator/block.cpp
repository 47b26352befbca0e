// The scheduler of a block: starts its threads, and chooses who runs whenever one waits.
#include "reprise/simt/emulator/block.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "reprise/simt/emulator/sanitizer.h"

namespace reprise::simt {
namespace {

constexpr size_t plain_stack_bytes = 64 * 1024;
constexpr size_t sanitized_stack_bytes = 256 * 1024;

uint64_t mixed(uint64_t x) {  // SplitMix64's finalizer: near seeds give unrelated numbers
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// What threads wait for is looked at by whichever thread runs: that is no race.
bool holds(const Thread& thread) {
  sanitizer::Quiet quiet;
  return thread.predicate(thread.context);
}

}  // namespace

Block& Block::mine() {
  static thread_local Block block;
  return block;
}

void Block::run(const Grid& grid, const std::function<int64_t()>& next_block) {
  grid_ = &grid;
  order_ = grid.options.order;
  stats_ = {};
  ::gridDim = grid.blocks;
  ::blockDim = grid.threads;
  struct Scope {
    Block& block;
    explicit Scope(Block& the_block) : block(the_block) { running_block = &block; }
    ~Scope() {
      running_block = nullptr;
      block.shared_.end_grid();
      sanitizer::acquire(&block.end_token_);
    }
  } scope(*this);
  for (int64_t number; (number = next_block()) >= 0;) run_block(number);
}

void Block::run_block(int64_t number) {
  start(number);
  resume(scheduler_, *pick());
  current_ = nullptr;
  if (error_.empty()) return;
  sanitizer::acquire(&end_token_);
  drop_threads();
  throw KernelError(std::exchange(error_, {}));
}

void Block::start(int64_t number) {
  ++serial_;
  const dim3 blocks = grid_->blocks, size = grid_->threads;
  const auto n = size_t(size.x) * size.y * size.z;
  const uint64_t row = uint64_t(number) / blocks.x;
  ::blockIdx = {unsigned(uint64_t(number) % blocks.x), unsigned(row % blocks.y), unsigned(row / blocks.y)};
  size_t stack_bytes = grid_->options.stack_bytes;
  if (stack_bytes == 0)
    stack_bytes = sanitizer::address || sanitizer::thread ? sanitized_stack_bytes : plain_stack_bytes;
  if (std::exchange(stack_bytes_, stack_bytes) != stack_bytes) drop_threads();
  while (threads_.size() < n)
    threads_.push_back(std::make_unique<Thread>(&Block::entry, stack_bytes, threads_.size()));
  n_warps_ = unsigned((n + warp_lanes - 1) / warp_lanes);
  while (warps_.size() < n_warps_) warps_.push_back(std::make_unique<Warp>());
  for (unsigned i = 0; i < n_warps_; ++i) {
    Warp& warp = *warps_[i];
    warp.number = i;
    warp.exist = warp.exited = warp.ready = warp.polling = 0;
    warp.meetings_begun = 0;
  }
  for (Barrier& barrier : barriers_) barrier = {};
  shared_.start_block(grid_->shared_bytes);
  async_.clear();
  ready_warps_ = 0;
  warp_ = nullptr;
  live_ = int(n);
  random_state_ = mixed(grid_->options.seed * 0x9e3779b97f4a7c15 + uint64_t(number)) | 1;
  progress_time_ = std::chrono::steady_clock::now();
  // A fiber is one thread to the race detector. Were it thread i of every block, races between threads i of
  // two blocks would be missed.
  rotation_ = sanitizer::thread ? (rotation_ + 1) % n : 0;
  for (size_t i = 0; i < n; ++i) start_thread(*threads_[(i + rotation_) % n], unsigned(i));
  sanitizer::release(&start_token_);
}

void Block::start_thread(Thread& thread, unsigned linear) {
  const dim3 size = grid_->threads;
  thread.index = {linear % size.x, linear / size.x % size.y, linear / (size.x * size.y)};
  thread.state = {linear % warp_lanes, linear / warp_lanes, linear, 0};
  thread.warp = warps_[thread.state.warp].get();
  thread.warp->threads[thread.state.lane] = &thread;
  thread.warp->exist |= bit(thread.state.lane);
  thread.where = {nullptr};
  thread.copies.clear();
  thread.copy_group = 0;
  make_ready(thread);
  if (sanitizer::thread) {
    char name[64];
    std::snprintf(name, sizeof name, "CUDA thread (%u, %u, %u) of block (%u, %u, %u)", thread.index.x,
                  thread.index.y, thread.index.z, ::blockIdx.x, ::blockIdx.y, ::blockIdx.z);
    sanitizer::name_fiber(thread.fiber.race_detector_fiber(), name);
  }
}

/// After a failure: stacks in the middle of a kernel are thrown away.
void Block::drop_threads() {
  for (auto& thread : threads_) {
    if (!sanitizer::thread) break;
    void* here = sanitizer::current_fiber();  // what the thread did until now precedes what follows
    sanitizer::switch_to_fiber(thread->fiber.race_detector_fiber());
    sanitizer::release(&end_token_);
    sanitizer::switch_to_fiber(here);
  }
  sanitizer::acquire(&end_token_);
  threads_.clear();
  warps_.clear();
}

void Block::entry() {
  Block& block = *running_block;
  Fiber::entered(block.scheduler_);
  while (true) {
    sanitizer::acquire(&block.start_token_);
    std::string error = block.run_kernel();
    if (!error.empty()) block.abandon(std::move(error));
    sanitizer::release(&block.end_token_);
    block.reschedule();
  }
}

/// Runs the kernel as the current thread, to its end; the result says what it failed with. No exception is
/// being handled any more when the fiber is left: the C++ runtime keeps those per OS thread.
std::string Block::run_kernel() {
  try {
    grid_->kernel();
    leave();
    return {};
  } catch (const KernelError& error) { return error.what(); } catch (const std::exception& error) {
    try {
      fail({"exception"}, error.what());
    } catch (const KernelError& with_place) { return with_place.what(); }
  } catch (...) { return std::string(grid_->name) + ": an exception that is no std::exception"; }
}

void Block::leave() {
  Warp& warp = *current_->warp;
  make_wait(*current_, Status::exited);
  warp.exited |= bit(current_->state.lane);
  --live_;
  Barrier& all = barriers_[0];
  if (all.arrived > 0 && all.threads < 0 && all.arrived == live_) release(all);
  end_meetings_without(warp);
}

uint64_t Block::random() {  // xorshift64
  random_state_ ^= random_state_ << 13;
  random_state_ ^= random_state_ >> 7;
  random_state_ ^= random_state_ << 17;
  return random_state_;
}

unsigned Block::choose(uint32_t candidates) {
  if (order_ == Order::forward) return unsigned(std::countr_zero(candidates));
  if (order_ == Order::reverse) return 31 - unsigned(std::countl_zero(candidates));
  const unsigned from = random() % 32;
  return (unsigned(std::countr_zero(std::rotr(candidates, int(from)))) + from) % 32;
}

void Block::make_ready(Thread& thread) {
  thread.status = Status::ready;
  thread.warp->ready |= bit(thread.state.lane);
  ready_warps_ |= bit(thread.state.warp);
}

void Block::make_wait(Thread& thread, Status status) {
  thread.status = status;
  thread.warp->ready &= ~bit(thread.state.lane);
  if (thread.warp->ready == 0) ready_warps_ &= ~bit(thread.state.warp);
}

/// The next thread to run; null if none can. Asynchronous operations land as late as they can, or at random;
/// all have landed when the block ends.
Thread* Block::pick() {
  const bool at_random = order_ == Order::random;
  while (true) {
    if (at_random && !async_.empty() && random() % 16 == 0) run_async();
    bool stay = warp_ && warp_->ready != 0 && (!at_random || random() % 4 != 0);
    if (!stay && ready_warps_ != 0) warp_ = warps_[choose(ready_warps_)].get();
    if (stay || ready_warps_ != 0) return warp_->threads[choose(warp_->ready)];
    if (wake_pollers()) continue;
    if (async_.empty()) return nullptr;
    run_async();
  }
}

bool Block::wake_pollers() {
  bool any = false;
  for (unsigned i = 0; i < n_warps_; ++i) {
    for_each_bit(warps_[i]->polling, [&](unsigned lane) {
      Thread& thread = *warps_[i]->threads[lane];
      if (!holds(thread)) return;
      warps_[i]->polling &= ~bit(lane);
      make_ready(thread);
      any = true;
    });
  }
  return any;
}

void Block::run_async() {
  size_t i = 0;
  if (order_ == Order::reverse) i = async_.size() - 1;
  if (order_ == Order::random) i = random() % async_.size();
  sanitizer::Quiet quiet;
  Async async = std::move(async_[i]);
  async_.erase(async_.begin() + ptrdiff_t(i));
  const uint3 here = std::exchange(::threadIdx, async.thread);  // reports name who submitted it
  struct Restore {
    uint3 index;
    ~Restore() { ::threadIdx = index; }
  } restore{here};
  async.operation();
}

void Block::resume(Fiber& from, Thread& thread) {
  if (&from == &thread.fiber) return;
  ++stats_.switches;
  current_ = &thread;
  ::threadIdx = thread.index;
  self = thread.state;
  from.switch_to(thread.fiber);
}

/// Lets the scheduler's choice run, until the current thread is chosen again.
void Block::reschedule() {
  Thread* next = nullptr;
  std::string error;
  try {
    next = pick();
    if (!next && live_ > 0) error = deadlock_report();
  } catch (const std::exception& failure) { error = failure.what(); }
  if (!error.empty()) abandon(std::move(error));
  if (next) return resume(current_->fiber, *next);
  current_->fiber.switch_to(scheduler_);
}

/// Ends the block with an error: no thread of it runs again.
void Block::abandon(std::string message) {
  error_ = std::move(message);
  sanitizer::release(&end_token_);
  current_->fiber.switch_to(scheduler_);
  std::abort();  // not reached
}

void Block::wait(bool (*predicate)(void*), void* context, Where where) {
  Thread& thread = *current_;
  thread.predicate = predicate;
  thread.context = context;
  if (holds(thread)) return;
  thread.where = where;
  make_wait(thread, Status::polling);
  thread.warp->polling |= bit(thread.state.lane);
  reschedule();
}

void Block::yield() {
  if (++yields_ % 1024 == 0) check_progress();
  Thread& thread = *current_;
  thread.predicate = [](void*) { return true; };
  make_wait(thread, Status::polling);
  thread.warp->polling |= bit(thread.state.lane);
  reschedule();
}

/// Threads that spin until something happens outside of their block would spin forever.
void Block::check_progress() {
  const uint64_t progress = stats_.barriers + stats_.warp_operations + uint64_t(live_);
  const auto now = std::chrono::steady_clock::now();
  if (progress != std::exchange(progress_, progress)) progress_time_ = now;
  if (now - progress_time_ < std::chrono::duration<double>(grid_->options.spin_seconds)) return;
  fail({"spin"}, "no thread of the block gets anywhere: blocks cannot wait for each other");
}

void Block::submit(std::function<void()> operation) {
  sanitizer::Quiet quiet;
  async_.push_back({std::move(operation), ::threadIdx});
}

void Block::let_others_first() {
  if (order_ == Order::forward) return;
  wake_pollers();
  warp_ = nullptr;
  reschedule();
}

}  // namespace reprise::simt
