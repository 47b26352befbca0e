// Standard descriptors, and exceptions as exit codes.
#include "reprise/apps/common/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>

#include "reprise/apps/common/output.h"
#include "reprise/apps/common/printable.h"
#include "reprise/core/error.h"

namespace reprise::apps {
namespace {

// The path and the reason, without the name of the function that failed.
std::string explain(const std::filesystem::filesystem_error& error) {
  return error.path1().string() + ": " + error.code().message();
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
  auto refuse = [name](int code, const std::string& message) {
    warn("{}: {}\n", name, printable(message));
    return code;
  };
  open_standard_streams();
  try {
    return body();
  } catch (const Error& error) {
    return refuse(2, error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    return refuse(2, explain(error));
  } catch (const std::system_error& error) { return refuse(2, error.what()); } catch (const std::bad_alloc&) {
    return refuse(2, "out of memory");
  } catch (const std::exception& error) { return refuse(1, std::string("internal error: ") + error.what()); }
}

}  // namespace reprise::apps
