// Links between ranks as alpha-beta models: a hop has a latency, a link a bandwidth. Ranks are placed node by node.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "reprise/core/error.h"

namespace reprise::apps::scale {

/// How a library writes to a peer: quick and at a part of the bandwidth, or slow and at all of it. Times in seconds.
struct Protocol {
  double base = 0;                                                ///< once a collective
  double node_hop = 0;                                            ///< from rank to rank within a node
  double network_hop = 0;                                         ///< from node to node
  double share = 1;                                               ///< of the link's bandwidth
  double most_in_node = std::numeric_limits<double>::infinity();  ///< bytes per second, of one node's ranks
  double most = std::numeric_limits<double>::infinity();          ///< the same over several nodes
};

struct Links {
  std::string name;
  int per_node = 8;
  double node_bandwidth = 0;     ///< bytes per second and direction that a rank reaches within its node
  double network_bandwidth = 0;  ///< the same to other nodes; each rank has a network card of its own
  double message_seconds = 0;    ///< that the host takes to post a message to another node
  double sum_bandwidth =
      0;  ///< bytes of memory per second that the kernel of our ordered sum reads and writes
  std::vector<Protocol> ring{}, tree{};
  double nvls_share = 0;  ///< of the node's bandwidth that sums in the switch reach; 0: there are none
  double nvls_base = 0, nvls_network_hop = 0;
};

/// NVLink of H100 and H200 under NCCL 2.28, one network card of `network_gigabits` per GPU. Where each constant is from stands
/// beside it in links.cpp.
Links nvlink4(int per_node, double network_gigabits);
/// Processes over Gloo: within a machine as docs and contract have measured it, between machines by assumption.
Links gloo(int per_node, double network_gigabits);

/// Ranks on nodes: Error unless they fill whole nodes or lie on one.
struct Placement {
  int ranks = 1, nodes = 1;
  int per_node() const { return ranks / nodes; }
};
Placement place(int ranks, int per_node);

}  // namespace reprise::apps::scale
