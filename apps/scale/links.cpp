#include "reprise/apps/scale/links.h"

namespace reprise::apps::scale {
namespace {

constexpr double us = 1e-6, gb = 1e9;

// Of a network card's line rate: 4 nodes of 8 H100 with 8 x 400 Gb/s reach a bus bandwidth of 320 to 330 GB/s of 400 (nccl issue
// 1221).
constexpr double network_share = 0.82;

// Of a line rate, what sums of 25 MiB over Gloo reach: 88 to 93 %, on 2 and 4 ranks over links that tbf limits to 100 to 400 Mbit/s
// (docs/distributed.md). Packets' headers alone would leave 94 %: 1448 bytes of 1538.
constexpr double gloo_share = 0.90;

}  // namespace

Links nvlink4(int per_node, double network_gigabits) {
  Links links{.name = "NVLink 4, NCCL"};
  links.per_node = per_node;
  // 450 GB/s are the line rate, "370 GB/s ... when running with NCCL_ALGO=RING" what is left of it (nccl-tests issue 212).
  links.node_bandwidth = 370 * gb;
  links.network_bandwidth = network_share * network_gigabits / 8 * gb;
  links.message_seconds = 1 * us;         // NCCL 2.28, tuning.cc, getNetOverhead
  links.sum_bandwidth = 0.8 * 3350 * gb;  // assumed: 80 % of an H100's memory bandwidth
  // NCCL 2.28, tuning.cc: baseLatencies, hwLatencies (NVLINK, NET), llMaxBws (Hopper; AMD hosts, more than two nodes), and the
  // shares of LL, LL128 and Simple.
  links.ring = {{6.6 * us, 0.6 * us, 2.7 * us, 0.5, 141 * gb, 35 * gb},
                {14 * us, 1.9 * us, 4 * us, 0.92},
                {8.4 * us, 3.4 * us, 14 * us, 1}};
  links.tree = {{6.8 * us, 0.6 * us, 5 * us, 0.92 / 3.8, 141 * gb, 35 * gb},
                {14 * us, 1.25 * us, 8.5 * us, 0.92 * 120 / 128},
                {8.4 * us, 4 * us, 14 * us, 0.92}};
  links.nvls_share = 0.85;  // nvlsEfficiency of Hopper
  links.nvls_base = 25 * us;
  links.nvls_network_hop = 14 * us;
  return links;
}

Links gloo(int per_node, double network_gigabits) {
  Links links{.name = "Gloo"};
  links.per_node = per_node;
  // All-reduce of 25 MiB by 2 ranks in 16.9 ms, of 4 bytes in 20 us: measured on two cores (design, "What it stands on").
  links.node_bandwidth = 25 * 1048576 / 16.9e-3;
  links.network_bandwidth = gloo_share * network_gigabits / 8 * gb;
  links.message_seconds = 5 * us;                        // assumed: a system call
  links.sum_bandwidth = 10 * gb;                         // assumed: two cores
  links.ring = links.tree = {{0, 10 * us, 50 * us, 1}};  // 20 us are two hops; 50 us are assumed
  return links;
}

Placement place(int ranks, int per_node) {
  check(ranks >= 1 && per_node >= 1, "place: ", ranks, " ranks, ", per_node,
        " per node; both are at least 1");
  if (ranks <= per_node) return {ranks, 1};
  check(ranks % per_node == 0, "--ranks ", ranks, " do not fill nodes of --per-node ", per_node, "; ",
        ranks / per_node * per_node, " and ", (ranks / per_node + 1) * per_node, " do");
  return {ranks, ranks / per_node};
}

}  // namespace reprise::apps::scale
