// Signals that ask a program to stop: the loop finishes its step, saves and ends.
#pragma once

#include <csignal>
#include <exception>

namespace reprise::train {

inline constexpr int interrupted_exit_code = 3;

/// While it lives, SIGINT, SIGTERM and SIGHUP only set a flag (a third SIGINT ends the process at once), and
/// a broken pipe is an error of the write instead of a signal. A SIGHUP that was ignored before, as under
/// nohup, stays ignored. Scopes may be nested: the flag is the outermost one's.
class InterruptScope {
 public:
  enum class Begin { deferring, at_once, undoing };

  /// `undoing`: as deferring, of work that leaves nothing behind when it is stopped. `at_once`: there is nothing to save yet, so that until `defer` a signal ends the process with
  /// `interrupted_exit_code`.
  explicit InterruptScope(Begin begin = Begin::deferring);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;

  void defer();

 private:
  struct sigaction previous_[4];
};

/// Whether one of the signals came.
bool interrupted();

/// What ends an evaluation or a sample that was begun before the signal.
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};
/// Throws Interrupted if one of the signals came.
void stop_if_interrupted();

}  // namespace reprise::train
