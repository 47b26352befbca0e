// Ctrl-C and SIGTERM: the loop finishes its step, saves and stops.
#pragma once

namespace reprise::apps {

inline constexpr int interrupted_exit_code = 3;

/// While it lives, SIGINT and SIGTERM only set a flag; a second SIGINT ends the process at once.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
};

bool interrupted();

}  // namespace reprise::apps
