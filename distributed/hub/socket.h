// Sockets on loopback, and who holds their other end.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace reprise::distributed {

/// A file descriptor that is closed with it.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    close();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

/// A peer that goes must not end this process: SIGPIPE is ignored from the first socket on, unless the program handles it.
void ignore_sigpipe();

/// The address of loopback that `host` names. Error if it names none, or another one: nothing on those is authenticated yet.
std::string loopback_address(const std::string& host);

/// Listens on the first of `ports` that is free; its number goes to `port`. Error that lists them if none is.
Socket listen_on(const std::string& address, const std::vector<int>& ports, int& port);
/// No socket where no process listens.
Socket connect_to(const std::string& address, int port);
Socket accept_from(const Socket& listener);

/// Whether the process at the other end is one of this user's, as /proc/net/tcp says.
bool is_same_user(const Socket& socket);

/// Whether something can be read, or the peer has gone.
bool wait_readable(const Socket& socket, std::chrono::milliseconds timeout);
/// False if the peer has gone, or has taken nothing for a second.
bool send_all(const Socket& socket, const std::string& bytes);
/// The same, but where the peer takes nothing now, nothing is sent.
bool send_if_room(const Socket& socket, const std::string& bytes);
/// What has arrived; empty if the peer has gone. Waits if nothing has.
std::string receive_some(const Socket& socket);

}  // namespace reprise::distributed
