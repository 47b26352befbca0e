// Sockets, and who holds their other end.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
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

/// Listens on the first of `ports` that is free; its number goes to `port`. Error that lists them if none is, or if the address
/// is not one of this machine.
Socket listen_on(const std::string& address, const std::vector<int>& ports, int& port);
/// What a launcher of ours tells rank 0 by that it inherits a listening socket.
inline constexpr const char* listener_variable = "REPRISE_LISTENER_FD";
/// That socket, once, and its port, where it listens on `address`. No socket where the variable is not set, nor where it listens
/// elsewhere: it is closed. Error if the variable names no socket that listens.
Socket take_listener(const std::string& address, int& port);
/// No socket where no process listens, or none answers in time.
Socket connect_to(const std::string& address, int port,
                  std::chrono::milliseconds timeout = std::chrono::seconds(2));
Socket accept_from(const Socket& listener);

/// The address of this end, and of the other one; empty where there is none.
std::string own_address(const Socket& socket);
std::string peer_address(const Socket& socket);

/// Whether the process at the other end is one of this user's, as /proc/net/tcp says.
bool is_same_user(const Socket& socket);

/// Whether something can be read, or the peer has gone.
bool wait_readable(const Socket& socket, std::chrono::milliseconds timeout);
/// False if the peer has gone, or has taken nothing for a second.
bool send_all(const Socket& socket, std::string_view bytes);
/// The same, but where the peer takes nothing now, nothing is sent, and it is false.
bool send_if_room(const Socket& socket, std::string_view bytes);
/// What has arrived; empty if the peer has gone. Waits if nothing has.
std::string receive_some(const Socket& socket);

}  // namespace reprise::distributed
