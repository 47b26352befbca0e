#include "reprise/distributed/hub/token.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iomanip>
#include <mutex>

#include "reprise/core/error.h"
#include "reprise/core/number_in.h"
#include "reprise/core/quote.h"
#include "reprise/distributed/hub/socket.h"

namespace reprise::distributed {
namespace {

constexpr size_t longest_token = 4096;
constexpr const char *fd_name = "REPRISE_TOKEN_FD", *token_name = "REPRISE_JOB_TOKEN";

std::string checked(std::string token, const std::string& from) {
  constexpr const char* spaces = " \t\r\n";
  token.erase(token.find_last_not_of(spaces) + 1);
  token.erase(0, std::min(token.find_first_not_of(spaces), token.size()));
  check(token.size() >= shortest_token && token.size() <= longest_token, "join: the token of ", from, " has ",
        token.size(), " bytes, not ", shortest_token, " to ", longest_token,
        "; openssl rand -hex 16 makes one");
  return token;
}

// As much as there is, and no more than shows that it is too long.
std::string read_all(const Socket& descriptor, const std::string& from) {
  std::string text(longest_token + 64, '\0');
  size_t got = 0;
  while (got < text.size()) {
    const ssize_t n = ::read(descriptor.fd(), text.data() + got, text.size() - got);
    if (n < 0 && errno == EINTR) continue;
    check(n >= 0, "join: ", from, ": ", std::strerror(errno));
    if (n == 0) break;
    got += size_t(n);
  }
  text.resize(got);
  return text;
}

std::string token_in_file(const std::string& path) {
  const std::string from = "--token-file " + quote(path);
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  const Socket file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  check(bool(file), "join: ", from, ": ", std::strerror(errno));
  struct stat status {};
  check(::fstat(file.fd(), &status) == 0 && S_ISREG(status.st_mode), "join: ", from, " is no regular file");
  check(status.st_uid == ::geteuid(), "join: ", from, " belongs to user ", status.st_uid,
        ", and this process is user ", ::geteuid(), "'s");
  const unsigned mode = status.st_mode & 07777u;
  TextStream octal;
  octal << std::oct << std::setw(4) << std::setfill('0') << mode;
  check(mode == 0600 || mode == 0400, "join: ", from, " has mode ", octal.str(),
        "; it is to be 0600, so that others cannot read it: chmod 600");
  return checked(read_all(file, from), from);
}

// Its value; gone afterwards, also from the memory that /proc/PID/environ shows.
std::string taken_variable(const char* name) {
  char* value = std::getenv(name);
  if (!value) return "";
  std::string text = value;
  ::explicit_bzero(value, text.size());
  ::unsetenv(name);
  return text;
}

std::string token_in_pipe(const std::string& number) {
  const auto fd = number_in<int>(number);
  check(fd && *fd > STDERR_FILENO, "environment: ", fd_name, " is ", quote(number), ", no descriptor");
  return checked(read_all(Socket(*fd), fd_name), fd_name);
}

// What the variables held: they can be read once.
struct Given {
  std::string piped, variable;
};

const Given& given_token() {
  static const Given given = [] {
    const std::string number = taken_variable(fd_name), variable = taken_variable(token_name);
    return Given{number.empty() ? "" : token_in_pipe(number), variable};
  }();
  return given;
}

}  // namespace

std::string take_token(const std::string& file) {
  const Given& given = given_token();
  if (!given.piped.empty()) return given.piped;
  if (!file.empty()) return token_in_file(file);
  return given.variable.empty() ? "" : checked(given.variable, token_name);
}

std::string random_bytes(size_t count) {
  std::string bytes(count, '\0');
  const ssize_t got = ::getrandom(bytes.data(), count, 0);  // before its errno is read
  check(got == ssize_t(count), "join: getrandom: ", std::strerror(errno));
  return bytes;
}

std::string new_token() {
  TextStream digits;
  digits << std::hex << std::setfill('0');
  for (const char byte : random_bytes(16)) digits << std::setw(2) << int(static_cast<unsigned char>(byte));
  return digits.str();
}

}  // namespace reprise::distributed
