#include "reprise/distributed/call_queue.h"

#include <chrono>

#include "reprise/core/parallel.h"

namespace reprise::distributed {

CallQueue::CallQueue(std::shared_ptr<CommunicationMeter> meter)
    : meter_(std::move(meter)), thread_([this] { loop(); }) {}

CallQueue::~CallQueue() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Work CallQueue::push(std::function<void(const Arrival&)> run) {
  Entry entry{std::move(run), {}};
  entry.work.state_ = std::make_shared<Work::State>(meter_);
  Work work = entry.work;
  {
    std::lock_guard lock(mutex_);
    entries_.push_back(std::move(entry));
  }
  changed_.notify_all();
  return work;
}

bool CallQueue::is_settled() const {
  std::lock_guard lock(mutex_);
  return entries_.empty() && (!running_ || has_arrived_);
}

void CallQueue::wait_until_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return entries_.empty() && !running_; });
}

void CallQueue::loop() {
  SerialScope serial;  // the pool is the computation's
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || !entries_.empty(); });
    if (entries_.empty()) return;
    Entry entry = std::move(entries_.front());
    entries_.pop_front();
    running_ = true;
    has_arrived_ = false;
    lock.unlock();
    const Outcome outcome = run(entry);
    entry.run = {};  // its tensors go before others are told
    lock.lock();
    running_ = false;
    changed_.notify_all();
    lock.unlock();
    finish(entry.work, outcome);  // who waited for it finds the queue idle
    lock.lock();
  }
}

CallQueue::Outcome CallQueue::run(const Entry& entry) {
  const auto begin = std::chrono::steady_clock::now();
  Outcome outcome;
  try {
    entry.run([&](auto event) { arrive(entry.work, std::move(event)); });
  } catch (...) { outcome.error = std::current_exception(); }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

void CallQueue::arrive(const Work& work, std::shared_ptr<const cuda::Event> event) {
  {
    std::lock_guard lock(mutex_);
    has_arrived_ = true;
  }
  Work::State& state = *work.state_;
  {
    std::lock_guard lock(state.mutex);
    state.arrival = std::move(event);
  }
  state.changed.notify_all();
}

void CallQueue::finish(const Work& work, const Outcome& outcome) {
  Work::State& state = *work.state_;
  {
    std::lock_guard lock(state.mutex);
    state.error = outcome.error;
    state.seconds = outcome.seconds;
    state.done = true;
  }
  state.changed.notify_all();
}

}  // namespace reprise::distributed
