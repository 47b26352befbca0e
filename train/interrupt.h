// Signals that ask a program to stop: the loop finishes its step, saves and ends.
#pragma once

#include <csignal>
#include <exception>

namespace reprise::train {

/// What a program exits with that a signal has ended.
inline constexpr int interrupted_exit_code = 3;

/// While it lives, SIGINT, SIGTERM and SIGHUP only set a flag (a third SIGINT ends the process at once), and
/// a broken pipe is an error of the write instead of a signal. A SIGHUP that was ignored before, as under
/// nohup, stays ignored. Scopes may be nested: the flag is the outermost one's.
class InterruptScope {
 public:
  /// What a signal does.
  enum class Begin {
    deferring,  ///< it sets the flag, for work that ends by itself
    at_once,  ///< it ends the process with `interrupted_exit_code`, until `defer`: there is nothing to save yet
    undoing,  ///< it sets the flag, of work that leaves nothing behind when it is stopped
  };

  /// Handles the signals from here on.
  explicit InterruptScope(Begin begin = Begin::deferring);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;

  void defer();  ///< from now on as `deferring`

 private:
  struct sigaction previous_[4];
};

/// Whether one of the signals came.
bool interrupted();

/// What ends an evaluation or a sample that was begun before the signal.
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }  ///< says no more
};
/// Throws Interrupted if one of the signals came.
void stop_if_interrupted();

}  // namespace reprise::train
