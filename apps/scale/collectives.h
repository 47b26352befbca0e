// What a collective costs: Reprise's own, by direct exchange, and NCCL's ring, tree and sums in the switch.
#pragma once

#include <string_view>

#include "reprise/apps/scale/links.h"

namespace reprise::apps::scale {

/// Seconds, apart by what they would vanish with: hops and messages, or bytes.
struct Cost {
  double latency = 0, transfer = 0;
  double seconds() const { return latency + transfer; }
};

enum class Reduce : uint8_t {
  tree,       ///< Reprise's: all_to_all of parts, one kernel that adds them in the tree's order, all_gather
  ring,       ///< NCCL's
  nccl_tree,  ///< NCCL's double binary tree; gathers and scatters by ring
  nvls,       ///< sums in the NVLink switch, by a tree between nodes
  fast,       ///< the quickest of NCCL's for each message
};
/// "tree", "fast", "ring", "nccl-tree" or "nvls". Error on anything else.
Reduce parse_reduce(std::string_view text);

/// `bytes` are those of the whole buffer on each rank: a reduce_scatter leaves 1/n of them, an all_gather begins with 1/n.
/// Of one rank everything is free.
class Collectives {
 public:
  Collectives(const Links& links, Placement placement, Reduce reduce);

  /// `nodes`: of the tree that a rank's micro-batches are (distributed/tree.h), each sent by itself; of Reprise's sum alone.
  Cost all_reduce(double bytes, int nodes = 1) const;
  Cost reduce_scatter(double bytes, int nodes = 1) const;
  Cost all_gather(double bytes) const;

 private:
  Cost exchange(double bytes, int messages) const;
  Cost scatter_nodes(double bytes, int nodes) const;
  Cost ring(double bytes, int passes) const;
  Cost nccl_tree(double bytes) const;
  Cost nvls_all_reduce(double bytes) const;
  Cost nvls_gather(double bytes) const;
  Cost nccl_gather(double bytes) const;
  double cap(const Protocol& protocol, double bandwidth) const;
  bool has_nvls() const { return links_.nvls_share > 0; }

  Links links_;
  Placement placement_;
  Reduce reduce_;
};

}  // namespace reprise::apps::scale
