#include "reprise/distributed/hub/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <utility>

#include "reprise/core/error.h"
#include "reprise/core/number_in.h"
#include "reprise/core/quote.h"

namespace reprise::distributed {
namespace {

std::string text_of(const sockaddr& address) {
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof(text));
  return text;
}

// Names and addresses of the interfaces that are up.
std::vector<std::pair<std::string, std::string>> interfaces() {
  ifaddrs* first = nullptr;
  check(getifaddrs(&first) == 0, "join: the system lists no network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, freeifaddrs);
  std::vector<std::pair<std::string, std::string>> found;
  for (const ifaddrs* one = first; one; one = one->ifa_next)
    if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET && (one->ifa_flags & IFF_UP))
      found.emplace_back(one->ifa_name, text_of(*one->ifa_addr));
  return found;
}

}  // namespace

std::string address_of(const std::string& host) {
  addrinfo hints{}, *first = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &first);
  check(error == 0, "join: rank 0 is at ", quote(host), ", which has no address: ", gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(first, freeaddrinfo);
  std::string chosen = text_of(*first->ai_addr);
  for (const addrinfo* one = first; one && is_loopback(chosen); one = one->ai_next)
    chosen = text_of(*one->ai_addr);
  return chosen;
}

bool is_loopback(const std::string& address) { return address.starts_with("127."); }

std::vector<std::string> own_addresses() {
  std::vector<std::string> found;
  for (const auto& [name, address] : interfaces())
    if (!is_loopback(address)) found.push_back(address);
  return found;
}

std::string interface_of(const std::string& wanted) {
  for (const auto& [name, address] : interfaces())
    if (address == wanted) return name.substr(0, name.find(':'));
  return "";
}

HostPort host_port_of(const std::string& text, int most_port) {
  const size_t colon = text.find_last_of(':');
  const auto port = colon == std::string::npos ? std::nullopt : number_in<int>(text.substr(colon + 1));
  check(colon != 0 && port && *port >= 1 && *port <= most_port, "environment: --rendezvous is ", quote(text),
        ", not host:port with a port from 1 to ", most_port, ", nor file:FOLDER");
  return {text.substr(0, colon), *port};
}

}  // namespace reprise::distributed
