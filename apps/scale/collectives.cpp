#include "reprise/apps/scale/collectives.h"

#include <algorithm>
#include <cmath>

#include "reprise/core/quote.h"

namespace reprise::apps::scale {
namespace {

Cost quicker(const Cost& a, const Cost& b) { return b.seconds() < a.seconds() ? b : a; }

Cost operator+(const Cost& a, const Cost& b) { return {a.latency + b.latency, a.transfer + b.transfer}; }

// The protocol that is quickest for this message; `cost` of one.
template <class CostOf>
Cost quickest(const std::vector<Protocol>& protocols, const CostOf& cost) {
  Cost best = cost(protocols.front());
  for (const Protocol& protocol : protocols) best = quicker(best, cost(protocol));
  return best;
}

}  // namespace

Reduce parse_reduce(std::string_view text) {
  if (text == "tree") return Reduce::tree;
  if (text == "fast") return Reduce::fast;
  if (text == "ring") return Reduce::ring;
  if (text == "nccl-tree") return Reduce::nccl_tree;
  if (text == "nvls") return Reduce::nvls;
  fail(quote(text), " is not one of tree, fast, ring, nccl-tree and nvls");
}

Collectives::Collectives(const Links& links, Placement placement, Reduce reduce)
    : links_(links), placement_(placement), reduce_(reduce) {
  check(reduce != Reduce::nvls || has_nvls(), "--reduce nvls: ", links.name, " has no sums in a switch");
}

Cost Collectives::all_reduce(double bytes, int nodes) const {
  if (placement_.ranks == 1) return {};
  switch (reduce_) {
    case Reduce::tree:
      return scatter_nodes(bytes, nodes) + exchange(bytes, 1);
    case Reduce::ring:
      return ring(bytes, 2);
    case Reduce::nccl_tree:
      return nccl_tree(bytes);
    case Reduce::nvls:
      return nvls_all_reduce(bytes);
    case Reduce::fast:
      break;
  }
  const Cost best = quicker(ring(bytes, 2), nccl_tree(bytes));
  return has_nvls() ? quicker(best, nvls_all_reduce(bytes)) : best;
}

Cost Collectives::reduce_scatter(double bytes, int nodes) const {
  if (placement_.ranks == 1) return {};
  return reduce_ == Reduce::tree ? scatter_nodes(bytes, nodes) : nccl_gather(bytes);
}

Cost Collectives::all_gather(double bytes) const {
  if (placement_.ranks == 1) return {};
  return reduce_ == Reduce::tree ? exchange(bytes, 1) : nccl_gather(bytes);
}

// Each rank sends a part to each other rank, to those of its node and, at the same time, by its network card.
Cost Collectives::exchange(double bytes, int messages) const {
  const double n = placement_.ranks, here = placement_.per_node(), away = n - here;
  return quickest(links_.ring, [&](const Protocol& p) -> Cost {
    const double in_node = bytes * (here - 1) / n / cap(p, links_.node_bandwidth);
    const double out = away > 0 ? bytes * away / n / cap(p, links_.network_bandwidth) : 0;
    const double hop = away > 0 ? p.network_hop : p.node_hop;
    return {p.base + hop + away * messages * links_.message_seconds, std::max(in_node, out)};
  });
}

// The kernel reads the parts of n ranks, each a node or more, and writes one.
Cost Collectives::scatter_nodes(double bytes, int nodes) const {
  const double read_and_written = bytes * nodes + bytes / placement_.ranks;
  return exchange(bytes * nodes, nodes) + Cost{0, read_and_written / links_.sum_bandwidth};
}

// A pass goes n - 1 hops, those between nodes among them. A ring per network card: what leaves a node goes by all of its cards.
Cost Collectives::ring(double bytes, int passes) const {
  const double n = placement_.ranks, hops = n - 1;
  const double network_hops = placement_.nodes > 1 ? std::min<double>(placement_.nodes, hops) : 0;
  double bandwidth = links_.node_bandwidth;
  if (placement_.per_node() == 1)
    bandwidth = links_.network_bandwidth;
  else if (placement_.nodes > 1)
    bandwidth = std::min(bandwidth, placement_.per_node() * links_.network_bandwidth);
  return quickest(links_.ring, [&](const Protocol& p) -> Cost {
    const double latency =
        p.base + passes * ((hops - network_hops) * p.node_hop + network_hops * p.network_hop);
    return {latency, passes * (n - 1) / n * bytes / cap(p, bandwidth)};
  });
}

// A chain within each node, a binary tree between nodes; up and down, so that all bytes go twice.
Cost Collectives::nccl_tree(double bytes) const {
  double bandwidth = links_.node_bandwidth;
  if (placement_.nodes > 1) bandwidth = std::min(bandwidth, placement_.per_node() * links_.network_bandwidth);
  const double depth = std::ceil(std::log2(double(placement_.nodes)));
  return quickest(links_.tree, [&](const Protocol& p) -> Cost {
    const double latency = p.base + 2 * ((placement_.per_node() - 1) * p.node_hop + depth * p.network_hop);
    return {latency, 2 * bytes / cap(p, bandwidth)};
  });
}

// A rank's link carries its operand to the switch, its part of the sum from and to it, and the result: (n + 1) / n of the bytes in
// each direction. Between nodes each network card has 1 / per_node of the bytes, up and down a tree, meanwhile.
Cost Collectives::nvls_all_reduce(double bytes) const {
  const double here = placement_.per_node();
  if (here == 1) return nccl_tree(bytes);
  const double in_node = bytes * (here + 1) / here / (links_.nvls_share * links_.node_bandwidth);
  const double out = placement_.nodes > 1 ? 2 * bytes / here / links_.network_bandwidth : 0;
  const double depth = std::ceil(std::log2(double(placement_.nodes)));
  return {links_.nvls_base + 2 * depth * links_.nvls_network_hop, std::max(in_node, out)};
}

Cost Collectives::nvls_gather(double bytes) const {
  return {links_.nvls_base, bytes / (links_.nvls_share * links_.node_bandwidth)};
}

Cost Collectives::nccl_gather(double bytes) const {
  const bool switch_alone = reduce_ == Reduce::nvls && placement_.nodes == 1;
  if (switch_alone) return nvls_gather(bytes);
  const Cost by_ring = ring(bytes, 1);
  const bool may_switch = reduce_ == Reduce::fast && placement_.nodes == 1 && has_nvls();
  return may_switch ? quicker(by_ring, nvls_gather(bytes)) : by_ring;
}

double Collectives::cap(const Protocol& protocol, double bandwidth) const {
  return std::min(protocol.share * bandwidth, placement_.nodes > 1 ? protocol.most : protocol.most_in_node);
}

}  // namespace reprise::apps::scale
