// Fork: what a child must not find half done. A fork copies one thread only: a lock that another thread held
// at that moment is never let go in the child.
#pragma once

#include <mutex>

namespace reprise {

/// A mutex for what the whole process shares: a fork waits until no thread holds it, so the child finds it
/// free and what it guards whole. A thread that holds one asks for no other, or the fork could wait forever.
class ForkSafeMutex {
 public:
  ForkSafeMutex();
  ~ForkSafeMutex();
  ForkSafeMutex(const ForkSafeMutex&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  friend class ForkHandlers;
  std::mutex mutex_;
  ForkSafeMutex* next_ = nullptr;
  ForkSafeMutex* previous_ = nullptr;
};

}  // namespace reprise
