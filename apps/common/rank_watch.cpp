#include "reprise/apps/common/rank_watch.h"

#include <unistd.h>

#include <cstdlib>

#include "reprise/apps/common/program.h"
#include "reprise/core/quote.h"
#include "reprise/distributed/environment.h"
#include "reprise/train/interrupt.h"
#include "reprise/train/output.h"

namespace reprise::apps {
namespace {

constexpr std::chrono::milliseconds pause{50}, time_to_notice{2000};

std::atomic<bool> is_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

void on_signal(int) { is_asked = true; }

}  // namespace

void keep_requests_harmless() {
  struct sigaction there {};
  if (::sigaction(SIGUSR1, nullptr, &there) == 0 && there.sa_handler == SIG_DFL) ::signal(SIGUSR1, SIG_IGN);
}

RankWatch::RankWatch(distributed::ProcessGroup& group, std::chrono::milliseconds time_to_save)
    : group_(group), time_to_save_(time_to_save) {
  const distributed::Environment environment =
      distributed::read_environment(distributed::process_variables());
  if (environment.launcher == "--ranks") launcher_ = ::getppid();
  is_asked = false;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &action, &previous_);
  thread_ = std::thread([this] { loop(); });
}

RankWatch::~RankWatch() {
  is_ending_ = true;
  thread_.join();
  ::sigaction(SIGUSR1, &previous_, nullptr);
}

void RankWatch::loop() {
  while (!is_ending_) {
    std::this_thread::sleep_for(pause);
    write_if_asked();
    end_if_failed();
    end_if_left();
  }
}

void RankWatch::write_if_asked() {
  if (!is_asked.exchange(false)) return;
  const std::string path = group_.write_calls("SIGUSR1 asked for it");
  if (path.empty())
    train::warn("warning: SIGUSR1: the run has no folder yet, or the record of calls cannot be written\n");
  else
    train::warn("calls: {}\n", printable(path));
}

void RankWatch::end_if_failed() {
  const auto now = std::chrono::steady_clock::now();
  if (!failure_) {
    failure_ = group_.failure();
    failed_at_ = now;
  }
  if (!failure_ || now - failed_at_ < time_to_notice || is_ending_) return;
  std::_Exit(tell_end(cause(std::chrono::duration<double>(now - failed_at_).count())));
}

// Nobody else ends a rank that is stuck in its step, or waits for one that is.
void RankWatch::end_if_left() {
  if (launcher_ == 0 || ::getppid() == launcher_) return;
  const auto now = std::chrono::steady_clock::now();
  if (!left_at_) left_at_ = now;
  if (now - *left_at_ < time_to_save_ || is_ending_) return;
  train::warn("the launcher has died, and the step was not done and saved {} s later: ended unsaved\n",
              std::chrono::duration<double>(time_to_save_).count());
  std::_Exit(train::interrupted_exit_code);
}

// What a call of this rank has met itself, or else what the computation has not met for so long.
std::exception_ptr RankWatch::cause(double seconds) {
  try {
    group_.check_alive();
  } catch (const distributed::DistributedError&) {
  } catch (const std::exception&) { return std::current_exception(); }
  return std::make_exception_ptr(distributed::DistributedError(
      *failure_, {"computation", 0, group_.name(), "", group_.write_calls(failure_->message)}, seconds));
}

}  // namespace reprise::apps
