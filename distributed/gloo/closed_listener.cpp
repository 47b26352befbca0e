#include "reprise/distributed/gloo/closed_listener.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "reprise/core/number_in.h"
#include "reprise/io/folder.h"

namespace reprise::distributed {
namespace {

bool listens_on(int fd, int port) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens) return false;
  sockaddr_in at{};
  size = sizeof(at);
  return getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) == 0 && at.sin_family == AF_INET &&
         ntohs(at.sin_port) == port;
}

}  // namespace

void close_listener(int port) {
  sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &drop_all};
  for (const std::string& name : io::names_in("/proc/self/fd"))
    if (const auto fd = number_in<int>(name); fd && listens_on(*fd, port))
      setsockopt(*fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

}  // namespace reprise::distributed
