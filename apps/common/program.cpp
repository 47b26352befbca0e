// Standard descriptors, and exceptions as exit codes.
#include "reprise/apps/common/program.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>

#include "reprise/apps/common/output.h"
#include "reprise/core/error.h"
#include "reprise/core/quote.h"

namespace reprise::apps {
namespace {

// The path and the reason, without the name of the function that failed.
std::string explain(const std::filesystem::filesystem_error& error) {
  return error.path1().string() + ": " + error.code().message();
}

// Without memory there is none for a message either: this one is written from where it lies.
int refuse_for_memory(const char* name) {
  static char reason[] = ": out of memory\n";
  iovec parts[] = {{const_cast<char*>(name), std::strlen(name)}, {reason, sizeof reason - 1}};
  ssize_t ignored = ::writev(STDERR_FILENO, parts, 2);
  (void)ignored;  // nobody is left to be told
  return 2;
}

int refuse(const char* name, int code, const char* kind, const std::exception& error) {
  try {
    warn("{}: {}\n", name, printable(std::string(kind) + error.what()));
    return code;
  } catch (const std::bad_alloc&) { return refuse_for_memory(name); }
}

int refuse(const char* name, const std::filesystem::filesystem_error& error) {
  try {
    warn("{}: {}\n", name, printable(explain(error)));
    return 2;
  } catch (const std::bad_alloc&) { return refuse_for_memory(name); }
}

}  // namespace

void open_standard_streams() {
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one: those below it are open.
    if (::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY) != descriptor) std::_Exit(1);
  }
}

int run_program(const char* name, const std::function<int()>& body) {
  open_standard_streams();
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return refuse_for_memory(name);
  } catch (const std::filesystem::filesystem_error& error) {
    return refuse(name, error);
  } catch (const Error& error) { return refuse(name, 2, "", error); } catch (const std::system_error& error) {
    return refuse(name, 2, "", error);
  } catch (const std::exception& error) { return refuse(name, 1, "internal error: ", error); }
}

}  // namespace reprise::apps
