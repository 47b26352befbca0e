// Standard descriptors, and exceptions as exit codes.
#include "reprise/apps/common/program.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <initializer_list>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <typeinfo>

#include "reprise/core/error.h"
#include "reprise/core/memory.h"
#include "reprise/core/quote.h"
#include "reprise/distributed/errors.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/json.h"
#include "reprise/train/output.h"

namespace reprise::apps {
namespace {

// The path and the reason, without the name of the function that failed.
std::string explain(const std::filesystem::filesystem_error& error) {
  return error.path1().string() + ": " + error.code().message();
}

// Starting a thread takes memory for its stack and its variables: where there is none, the reason is that of a limit on threads.
std::string explain(const std::system_error& error) {
  if (error.code() != std::errc::resource_unavailable_try_again) return error.what();
  return reprise::detail::join("no thread can be started: memory, or threads, are used up (",
                               error.code().message(), ")");
}

// Under torchrun, which shows in its summary what the first rank to fail has left there, in the form of PyTorch's
// error_handler.py.
const char* error_file() {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  return path && *path ? path : nullptr;
}

void write_parts(int descriptor, std::initializer_list<std::string_view> texts) {
  iovec parts[8];
  int count = 0;
  for (const std::string_view text : texts) parts[count++] = {const_cast<char*>(text.data()), text.size()};
  ssize_t ignored = ::writev(descriptor, parts, count);
  (void)ignored;  // there is no one left to tell
}

// Without memory there is none for a message either: this one is written from where it lies. The name is a program's, and
// needs no escapes.
int refuse_for_memory(const char* name) {
  constexpr std::string_view reason = ": out of memory; what would have fitted is not known";
  write_parts(STDERR_FILENO, {name, reason, "\n"});
  const char* path = error_file();
  const int file = path ? ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
  if (file < 0) return 2;
  char now[24];
  const auto end = std::to_chars(now, now + sizeof now, int64_t(std::time(nullptr))).ptr;
  write_parts(file, {"{\"message\": {\"message\": \"", name, reason, "\", \"extraInfo\": {\"timestamp\": \"",
                     std::string_view(now, size_t(end - now)), "\"}}}\n"});
  ::close(file);
  return 2;
}

void leave_for_torchrun(const std::string& message) {
  const char* path = error_file();
  if (!path) return;
  try {
    io::write_file(path, "{\"message\": {\"message\": " + io::json_quote(message) +
                             ", \"extraInfo\": {\"timestamp\": \"" + std::to_string(std::time(nullptr)) +
                             "\"}}}\n");
  } catch (const std::exception&) {}  // it is said on standard error
}

struct Program {
  const char* name = "";
  int argc = 0;
  char** argv = nullptr;
};
Program running;

// A library's function that may not throw, and found no memory, ends the program here.
[[noreturn]] void end_without_handler() {
  const std::type_info* thrown = abi::__cxa_current_exception_type();
  if (thrown && *thrown == typeid(std::bad_alloc)) std::_Exit(refuse_for_memory(running.name));
  __gnu_cxx::__verbose_terminate_handler();
  std::abort();
}

// A message is as many lines as it has, whatever was typed: line breaks of an argument, or of its part after
// =, become \n.
std::string without_breaks(std::string message) {
  for (int i = 1; i < running.argc; ++i) {
    std::string_view typed = running.argv[i];
    if (typed.starts_with("--")) typed.remove_prefix(std::min(typed.find('=') + 1, typed.size()));
    if (typed.find('\n') == std::string_view::npos) continue;
    std::string shown;
    for (char c : typed) c == '\n' ? shown += "\\n" : shown += c;
    for (size_t at = 0; (at = message.find(typed, at)) != std::string::npos; at += shown.size())
      message.replace(at, typed.size(), shown);
  }
  return message;
}

}  // namespace

void open_standard_streams() {
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one: those below it are open.
    if (::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY) != descriptor) std::_Exit(1);
  }
}

int tell_end(std::exception_ptr thrown) {
  auto refuse = [&](int code, const std::string& message) {
    const std::string shown = printable(without_breaks(message));
    train::warn("{}: {}\n", running.name, shown);
    leave_for_torchrun(shown);
    return code;
  };
  try {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) { throw; } catch (const std::filesystem::filesystem_error& error) {
      return refuse(2, explain(error));
    } catch (const distributed::DistributedError& error) {
      return refuse(error.exit_code(), error.what());
    } catch (const OutOfMemory& error) {
      return refuse(2, std::string(error.what()) + unknown_fit);
    } catch (const Error& error) { return refuse(2, error.what()); } catch (const std::system_error& error) {
      return refuse(2, explain(error));
    } catch (const std::exception& error) {
      return refuse(1, std::string("internal error: ") + error.what());
    }
  } catch (const std::bad_alloc&) { return refuse_for_memory(running.name); }
}

int run_program(const char* name, int argc, char** argv, const std::function<int()>& body) {
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // what is written beyond `ulimit -f` fails, and is told of
  running = {name, argc, argv};
  std::set_terminate(end_without_handler);
  try {
    return body();
  } catch (const std::exception&) { return tell_end(std::current_exception()); }
}

}  // namespace reprise::apps
