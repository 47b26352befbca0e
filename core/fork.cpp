// The handlers of a fork: they take all mutexes before it and give them back after it, in parent and child.
#include "reprise/core/fork.h"

#include <pthread.h>

namespace reprise {
namespace {

constinit std::mutex list_mutex;
constinit ForkSafeMutex* newest = nullptr;

}  // namespace

class ForkHandlers {
 public:
  static void add(ForkSafeMutex& mutex) {
    std::lock_guard lock(list_mutex);
    mutex.next_ = newest;
    if (newest) newest->previous_ = &mutex;
    newest = &mutex;
  }
  static void remove(ForkSafeMutex& mutex) {
    std::lock_guard lock(list_mutex);
    (mutex.previous_ ? mutex.previous_->next_ : newest) = mutex.next_;
    if (mutex.next_) mutex.next_->previous_ = mutex.previous_;
  }
  static void before_fork() {
    list_mutex.lock();
    for (ForkSafeMutex* mutex = newest; mutex; mutex = mutex->next_) mutex->lock();
  }
  static void after_fork() {
    for (ForkSafeMutex* mutex = newest; mutex; mutex = mutex->next_) mutex->unlock();
    list_mutex.unlock();
  }
};

namespace {

// As the library is loaded: there is one thread, and memory for the list of handlers.
[[maybe_unused]] const int handlers_added =
    pthread_atfork(ForkHandlers::before_fork, ForkHandlers::after_fork, ForkHandlers::after_fork);

}  // namespace

ForkSafeMutex::ForkSafeMutex() { ForkHandlers::add(*this); }
ForkSafeMutex::~ForkSafeMutex() { ForkHandlers::remove(*this); }

}  // namespace reprise
