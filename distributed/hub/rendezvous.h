// Rendezvous: where the ranks of a job meet, in place of what the launcher's variables say.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace reprise::distributed {

/// Where the hub may be: it listens on one of the ports.
struct Place {
  std::string address = "127.0.0.1";
  std::vector<int> ports{};
};

/// A file in a folder that all machines see, in which rank 0 says where it is. Its name is made from the job's, so that attempts of
/// a job that its launcher tells apart do not meet there, and with a token by a MAC of that, so that neither do jobs without a name. With
/// a token, what another job or a stranger has written is not believed; without one, as always, the handshake tells hubs apart.
class RendezvousFile {
 public:
  RendezvousFile(const std::string& folder, std::string job, std::string token);
  const std::string& path() const { return path_; }

  /// Replaces what an earlier attempt has left. Error that names the file.
  void write(const std::string& address, int port);
  /// Nothing while there is none, or none of this job's.
  std::optional<Place> read() const;
  /// Once all have come, if it still holds what was written here. What cannot be removed stays.
  void remove() const;

 private:
  std::string proof_of(const std::string& place) const;

  std::string path_, job_, token_, written_;
};

}  // namespace reprise::distributed
