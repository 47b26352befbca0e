// Links with numbers that a hand computation can have, and a model of three layers.
#pragma once

#include "reprise/apps/scale/report.h"

namespace reprise::testing {

/// One protocol of hops of 1 and 10 us; 100 GB/s in a node of eight, 10 GB/s per rank between nodes; sums are free.
inline apps::scale::Links plain_links() {
  apps::scale::Links links{.name = "plain"};
  links.node_bandwidth = 100e9;
  links.network_bandwidth = 10e9;
  links.sum_bandwidth = 1e30;
  links.ring = links.tree = {{.base = 0, .node_hop = 1e-6, .network_hop = 10e-6}};
  return links;
}

/// Links without latency that carry `bytes_per_second` in a node.
inline apps::scale::Links slow_links(double bytes_per_second) {
  apps::scale::Links links = plain_links();
  links.node_bandwidth = bytes_per_second;
  links.ring = links.tree = {{}};
  return links;
}

/// Forward takes 1, 2 and 3 s, backward 2, 4 and 6 s, the update 0.5 s; parameters of 10, 20 and 30 elements.
inline apps::scale::StepProfile three_layers() {
  apps::scale::StepProfile profile{
      .model = "three layers", .origin = "by hand", .tokens = 100, .update_seconds = 0.5};
  for (int i = 1; i <= 3; ++i)
    profile.layers.push_back({.name = "layer " + std::to_string(i),
                              .parameters = {10 * i},
                              .forward_seconds = double(i),
                              .backward_seconds = 2.0 * i,
                              .saved_bytes = 1000.0 * i,
                              .output_bytes = 100,
                              .is_block = i == 2});
  return profile;
}

/// A bucket per parameter.
inline apps::scale::TrainingPlan plan_of_stage(int zero) {
  apps::scale::TrainingPlan plan{.zero = zero};
  plan.buckets = {.bytes = 1, .first_bytes = 1};
  return plan;
}

}  // namespace reprise::testing
