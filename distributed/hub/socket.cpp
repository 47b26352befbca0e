#include "reprise/distributed/hub/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "reprise/core/error.h"
#include "reprise/core/listing.h"
#include "reprise/core/number_in.h"
#include "reprise/core/quote.h"

namespace reprise::distributed {
namespace {

sockaddr_in socket_address(const std::string& address, int port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(uint16_t(port));
  check(inet_pton(AF_INET, address.c_str(), &at.sin_addr) == 1, "socket: no address: ", quote(address));
  return at;
}

Socket new_socket() {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  check(bool(socket), "socket: ", std::strerror(errno));
  return socket;
}

// A peer that is stopped must not hold up who tells the others of it.
void set_options(const Socket& socket) {
  const int on = 1;
  const timeval one_second{1, 0};
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &one_second, sizeof(one_second));
}

// The address of one end, by getsockname or getpeername.
std::optional<sockaddr_in> end_of(const Socket& socket, int (*of)(int, sockaddr*, socklen_t*) noexcept) {
  sockaddr_in at{};
  socklen_t size = sizeof(at);
  if (of(socket.fd(), reinterpret_cast<sockaddr*>(&at), &size) != 0) return {};
  return at;
}

std::string text_of(const sockaddr_in& at) {
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &at.sin_addr, text, sizeof(text));
  return text;
}

// As /proc/net/tcp writes it: the address as a number of this machine's byte order, both in hexadecimal.
std::string in_proc(const sockaddr_in& at) {
  char text[32];
  std::snprintf(text, sizeof(text), "%08X:%04X", unsigned(at.sin_addr.s_addr), unsigned(ntohs(at.sin_port)));
  return text;
}

}  // namespace

void Socket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void ignore_sigpipe() {
  struct sigaction action {};
  if (sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL)
    std::signal(SIGPIPE, SIG_IGN);
}

Socket listen_on(const std::string& address, const std::vector<int>& ports, int& port) {
  Listing tried;
  for (int p : ports) {
    Socket socket = new_socket();
    const int on = 1;
    setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in at = socket_address(address, p);
    socklen_t size = sizeof(at);
    if (bind(socket.fd(), reinterpret_cast<sockaddr*>(&at), size) == 0 && listen(socket.fd(), 1024) == 0 &&
        getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&at), &size) == 0) {
      port = ntohs(at.sin_port);
      return socket;
    }
    tried.add(address, ':', p, ": ", std::strerror(errno));
  }
  fail("join: rank 0 can listen at none of these:", tried.str());
}

Socket take_listener(const std::string& address, int& port) {
  const char* text = std::getenv(listener_variable);
  if (!text) return {};
  const std::string number = text;
  unsetenv(listener_variable);
  const auto fd = number_in<int>(number);
  check(fd && *fd > STDERR_FILENO, "environment: ", listener_variable, " is ", quote(number),
        ", no descriptor");
  int listens = 0;
  sockaddr_in at{};
  socklen_t size = sizeof(listens), length = sizeof(at);
  check(getsockopt(*fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens &&
            getsockname(*fd, reinterpret_cast<sockaddr*>(&at), &length) == 0,
        "environment: ", listener_variable, " is ", *fd, ", no socket that listens");
  Socket listener(*fd);
  if (text_of(at) != address) return {};
  fcntl(*fd, F_SETFD, FD_CLOEXEC);
  port = ntohs(at.sin_port);
  return listener;
}

Socket connect_to(const std::string& address, int port, std::chrono::milliseconds timeout) {
  Socket socket = new_socket();
  sockaddr_in at = socket_address(address, port);
  const int flags = fcntl(socket.fd(), F_GETFL);
  fcntl(socket.fd(), F_SETFL, flags | O_NONBLOCK);  // a machine that is gone does not answer for minutes
  if (connect(socket.fd(), reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0) {
    pollfd one{socket.fd(), POLLOUT, 0};
    int error = errno;
    socklen_t size = sizeof(error);
    if (error != EINPROGRESS || poll(&one, 1, int(timeout.count())) != 1 ||
        getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
      return {};
  }
  fcntl(socket.fd(), F_SETFL, flags);
  set_options(socket);
  return socket;
}

Socket accept_from(const Socket& listener) {
  Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket) set_options(socket);
  return socket;
}

std::string own_address(const Socket& socket) {
  const auto at = end_of(socket, getsockname);
  return at ? text_of(*at) : "";
}

std::string peer_address(const Socket& socket) {
  const auto at = end_of(socket, getpeername);
  return at ? text_of(*at) : "";
}

bool is_same_user(const Socket& socket) {
  const auto mine = end_of(socket, getsockname), theirs = end_of(socket, getpeername);
  if (!mine || !theirs) return false;
  std::ifstream table("/proc/net/tcp");
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retransmits;
    long uid = -1;
    words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid;
    if (local == in_proc(*theirs) && remote == in_proc(*mine)) return uid == long(geteuid());
  }
  return false;
}

bool wait_readable(const Socket& socket, std::chrono::milliseconds timeout) {
  pollfd one{socket.fd(), POLLIN, 0};
  return poll(&one, 1, int(timeout.count())) > 0;
}

bool send_all(const Socket& socket, std::string_view bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = send(socket.fd(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += size_t(n);
  }
  return true;
}

bool send_if_room(const Socket& socket, std::string_view bytes) {
  const ssize_t n = send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0) return false;
  return size_t(n) == bytes.size() || send_all(socket, bytes.substr(size_t(n)));
}

std::string receive_some(const Socket& socket) {
  std::string bytes(4096, '\0');
  ssize_t n;
  do n = recv(socket.fd(), bytes.data(), bytes.size(), 0);
  while (n < 0 && errno == EINTR);
  bytes.resize(n > 0 ? size_t(n) : 0);
  return bytes;
}

}  // namespace reprise::distributed
