// Meeting: where rank 0 of a job listens, and where the others look for it.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "reprise/distributed/environment.h"
#include "reprise/distributed/hub/rendezvous.h"

namespace reprise::distributed {

/// For how long a name that has no address yet is asked for again.
inline constexpr std::chrono::minutes longest_time_for_names{1};

class Meeting {
 public:
  using Tell = std::function<void(const std::string& line)>;

  /// `bind`: the address rank 0 listens on in place of the environment's; 0.0.0.0, of which it warns by `tell`, is all that its machine
  /// has. Error where an address is not of loopback and there is no token, or no libcrypto to prove it by; where one is of IPv6; and
  /// where rank 0's address is to be found in a folder, none is said and this machine has several. With a token, a name that has no
  /// address yet is asked for again for a minute, or for the join's timeout where that is shorter.
  Meeting(const Environment& environment, const std::string& token, const std::string& bind, const Tell& tell,
          std::chrono::milliseconds timeout = longest_time_for_names);
  ~Meeting();  ///< on rank 0: what was announced is gone
  Meeting(const Meeting&) = delete;

  /// On rank 0: where its hub listens, on the first of the ports that is free.
  const std::string& listen_address() const { return listen_; }
  const std::vector<int>& ports() const { return place_.ports; }
  /// On rank 0, once its hub listens.
  void announce(int port);

  /// Where the hub may be, for any rank; nothing while that is not known.
  std::optional<Place> place() const;

 private:
  void choose(const Environment& environment, const std::string& bind, const Tell& tell);

  bool is_first_ = false, has_token_ = false, is_announced_ = false;
  std::chrono::milliseconds time_for_names_{};
  std::string listen_;
  Place place_;
  std::optional<RendezvousFile> file_{};
};

}  // namespace reprise::distributed
