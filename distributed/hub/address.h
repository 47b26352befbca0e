// Addresses of machines: where rank 0 listens, where the others find it, and which way leads there. IPv4.
#pragma once

#include <string>
#include <vector>

namespace reprise::distributed {

/// The address that `host` names, as four numbers; where it names several, one that is not of loopback. Error if it names none.
std::string address_of(const std::string& host);
bool is_loopback(const std::string& address);
inline constexpr const char* any_address = "0.0.0.0";

/// The addresses of this machine that are not of loopback.
std::vector<std::string> own_addresses();
/// The network interface that has the address, "eth0"; empty if none has it.
std::string interface_of(const std::string& address);

/// "10.0.0.7:29500", cut. Error if `text` is no such place, or the port is not from 1 to `most_port`.
struct HostPort {
  std::string host;
  int port = 0;
};
HostPort host_port_of(const std::string& text, int most_port);

}  // namespace reprise::distributed
