// Clients of a hub whose ranks are soon called silent.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "reprise/distributed/hub/hub_client.h"

namespace reprise::testing {

/// After which a rank is silent, and what a busy machine may take beyond that.
inline constexpr std::chrono::milliseconds short_timeout{1000}, generous{5000};

/// Of a rank that finds its hub at `port` and has addresses without a meaning.
inline distributed::HubClient::Options client_options(int port, int rank, int ranks) {
  return {.place = [=] { return distributed::Place{.ports = {port}}; },
          .job = "job",
          .rank = rank,
          .ranks = ranks,
          .addresses = [=](const std::string&) { return std::vector<std::string>(size_t(ranks), "x"); },
          .timeout = std::chrono::seconds(20),
          .peer_timeout = short_timeout};
}

}  // namespace reprise::testing
