#include "reprise/distributed/wait_notices.h"

#include <algorithm>
#include <cstdio>

namespace reprise::distributed {
namespace {

constexpr std::chrono::milliseconds longest_pause{500}, shortest_pause{20};

}  // namespace

void tell_standard_error(const std::string& line) { std::fprintf(stderr, "reprise: %s\n", line.c_str()); }

WaitNotices::WaitNotices(std::chrono::milliseconds after, Tell tell)
    : after_(after), tell_(tell ? std::move(tell) : tell_standard_error), thread_([this] { loop(); }) {}

WaitNotices::~WaitNotices() {
  {
    std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  ending_.notify_all();
  thread_.join();
}

void WaitNotices::add(const void* owner, Look look) {
  std::lock_guard lock(mutex_);
  looks_[owner] = std::move(look);
}

void WaitNotices::remove(const void* owner) {
  std::lock_guard lock(mutex_);
  looks_.erase(owner);
}

void WaitNotices::loop() {
  const auto pause = std::clamp(after_ / 10, shortest_pause, longest_pause);
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, pause, [&] { return is_ending_; }))
    for (const auto& [owner, look] : looks_)
      if (const std::string line = look(after_); !line.empty()) tell_(line);
}

}  // namespace reprise::distributed
