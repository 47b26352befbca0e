// Signals as a flag.
#include "reprise/apps/common/interrupt.h"

#include <atomic>
#include <csignal>
#include <cstdlib>

namespace reprise::apps {
namespace {

std::atomic<bool> asked_to_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

void on_signal(int signal) {
  if (asked_to_stop.exchange(true) && signal == SIGINT) std::_Exit(interrupted_exit_code);
}

}  // namespace

InterruptScope::InterruptScope() {
  asked_to_stop = false;
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

InterruptScope::~InterruptScope() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool interrupted() { return asked_to_stop.load(); }

}  // namespace reprise::apps
