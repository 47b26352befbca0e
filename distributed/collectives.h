// Collectives of byte ranges over a lane: what each operation of a group moves and adds. They return when it is done, or, where
// the lane is a device's, on its stream. Barriers and texts are for lanes of the CPU.
#pragma once

#include "reprise/distributed/lane.h"
#include "reprise/distributed/reduce_op.h"
#include "reprise/distributed/tree.h"

namespace reprise::distributed::collectives {

struct Reduction {
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int64_t count = 0;  ///< elements of each source
};

/// Sums of nodes of a tree: `own[k]` is this rank's k-th node, `count` elements; `nodes[r]` are those of rank r, and all of
/// them hold the leaves 0 ... n-1. Sends 2 (n-1)/n of the elements per node and rank. `out` may be one of `own`.
void reduce_nodes(Lane& lane, const Reduction& reduction, std::span<const void* const> own,
                  const std::vector<std::vector<TreeNode>>& nodes, void* out);
/// The same, but only part `rank` of size() equal ones is made, with half of the sends; `out` may be that part of a node. `room`
/// holds what arrives: scatter_room bytes.
void scatter_nodes(Lane& lane, const Reduction& reduction, std::span<const void* const> own,
                   const std::vector<std::vector<TreeNode>>& nodes, void* out, void* room);
/// For each node of another rank `bytes`, those of a part; in host memory 4 MiB at most, as parts arrive in such pieces.
size_t scatter_room(Device device, int rank, const std::vector<std::vector<TreeNode>>& nodes, size_t bytes);

/// `data`, `count` elements, becomes the sum over ranks: each part goes around a ring of ranks, which add theirs one after
/// another, and around it again (Patarasuk and Yuan 2009). Part p is added from rank p on. Sends 2 (n-1)/n of the elements.
/// Where the lane's memory is moved by what can add, that adds as it will.
void ring_sum(Lane& lane, DType dtype, int64_t count, void* data);
/// `in` has `count` elements for each rank; `out` becomes part `rank` of the sum over ranks, and may be that part of `in`. Part p
/// goes around the ring once, added from rank p + 1 on, to rank p. Sends (n-1)/n of `in`. What can add, adds as it will.
/// `room`: two parts, of two ranks one; none where the lane adds by itself.
void ring_scatter(Lane& lane, DType dtype, int64_t count, const void* in, void* out, void* room);

void broadcast(Lane& lane, void* data, size_t bytes, int root);
/// `bytes` of each rank, in their order; `in` may be its part of `out`.
void all_gather(Lane& lane, const void* in, void* out, size_t bytes);
/// Part r of `in` goes to rank r, and is part `rank` of its `out`; `bytes` each.
void all_to_all(Lane& lane, const void* in, void* out, size_t bytes);
void barrier(Lane& lane);
std::vector<std::string> gather_text(Lane& lane, const std::string& text);

}  // namespace reprise::distributed::collectives
