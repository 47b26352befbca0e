// Writing to the standard streams without a buffer: what was written is out, and what failed has its errno.
#include "reprise/train/output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "reprise/core/error.h"
#include "reprise/core/number_in.h"
#include "reprise/core/quote.h"

namespace reprise::train {
namespace {

// 0, or the errno of what kept the text from being written whole.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    ssize_t put = ::write(descriptor, text.data(), text.size());
    if (put >= 0) {
      text.remove_prefix(size_t(put));
    } else if (errno == EAGAIN) {  // another program made the shared stream non-blocking
      pollfd wanted{.fd = descriptor, .events = POLLOUT, .revents = 0};
      ::poll(&wanted, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// Of the whole process, as its standard error is.
struct KeptWarnings {
  std::mutex mutex;
  std::string path;  // empty: nowhere
};

KeptWarnings& kept_warnings() {
  static KeptWarnings kept;
  return kept;
}

}  // namespace

void print_text(std::string_view text) {
  int reason = write_all(STDOUT_FILENO, text);
  check(reason == 0, "standard output: ", std::strerror(reason));
}

void report_text(std::string_view text) {
  static std::atomic<bool> told{false};
  int reason = write_all(STDOUT_FILENO, text);
  if (reason != 0 && !told.exchange(true))
    warn("warning: standard output: {}; what it would show is lost, the work goes on\n",
         std::strerror(reason));
}

void warn_text(std::string_view text) {
  write_all(STDERR_FILENO, text);
  KeptWarnings& kept = kept_warnings();
  std::lock_guard lock(kept.mutex);
  if (kept.path.empty()) return;
  const int file = ::open(kept.path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return;
  write_all(file, text);
  ::close(file);
}

void keep_warnings(const std::string& path) {
  KeptWarnings& kept = kept_warnings();
  std::lock_guard lock(kept.mutex);
  kept.path = path;
}

bool is_terminal() { return ::isatty(STDOUT_FILENO) != 0; }

int terminal_columns() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* text = std::getenv("COLUMNS");
  int columns = number_in<int>(text ? text : "").value_or(0);
  return columns > 0 ? columns : 80;
}

std::string for_output(std::string text) { return is_terminal() ? printable(text) : std::move(text); }

}  // namespace reprise::train
