// Signals as a flag.
#include "reprise/train/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace reprise::train {
namespace {

constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

std::atomic<bool> asked_to_stop{false}, ends_at_once{false}, undoes{false};
std::atomic<int> ctrl_c{0}, scopes{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

void say(std::string_view text) { (void)!::write(STDERR_FILENO, text.data(), text.size()); }

void on_signal(int signal) {
  int kept_errno = errno;
  if (ends_at_once) {
    say("Stopped before the first step: there is nothing to save\n");
    std::_Exit(interrupted_exit_code);
  }
  asked_to_stop = true;
  if (signal == SIGINT) {
    int count = ++ctrl_c;
    if (count == 1)
      say(undoes ? "\nStopping once what was written is removed\n"
                 : "\nStopping once this step is done and saved; Ctrl-C twice more ends at once, unsaved\n");
    if (count == 3) std::_Exit(interrupted_exit_code);
  }
  errno = kept_errno;
}

}  // namespace

InterruptScope::InterruptScope(Begin begin) {
  if (scopes++ == 0) {
    asked_to_stop = false;
    ctrl_c = 0;
    ends_at_once = begin == Begin::at_once;
    undoes = begin == Begin::undoing;
  }
  for (size_t i = 0; i < std::size(signals); ++i) {
    struct sigaction action {};
    action.sa_handler = signals[i] == SIGPIPE ? SIG_IGN : on_signal;
    action.sa_flags = SA_RESTART;
    ::sigaction(signals[i], nullptr, &previous_[i]);
    bool stays_ignored = signals[i] == SIGHUP && previous_[i].sa_handler == SIG_IGN;
    if (!stays_ignored) ::sigaction(signals[i], &action, nullptr);
  }
}

InterruptScope::~InterruptScope() {
  for (size_t i = 0; i < std::size(signals); ++i) ::sigaction(signals[i], &previous_[i], nullptr);
  --scopes;
}

void InterruptScope::defer() { ends_at_once = false; }

bool interrupted() { return asked_to_stop.load(); }

void stop_if_interrupted() {
  if (interrupted()) throw Interrupted();
}

}  // namespace reprise::train
