#include "reprise/distributed/collectives.h"

#include <algorithm>
#include <cstring>

#include "reprise/core/cuda/runtime.h"
#include "reprise/kernels/reduce/ordered_reduce.h"

namespace reprise::distributed::collectives {
namespace {

const char* at(const void* data, size_t bytes) { return static_cast<const char*>(data) + bytes; }
char* at(void* data, size_t bytes) { return static_cast<char*>(data) + bytes; }

void copy(const Lane& lane, const void* from, void* to, size_t bytes) {
  if (from == to || !bytes) return;
  if (lane.stream().device().is_cpu())
    std::memcpy(to, from, bytes);
  else
    cuda::copy_async(to, from, bytes, lane.stream().handle());
}

// The ranks but this one, beginning behind it: so that not all send to one rank first.
std::vector<int> others(const Lane& lane) {
  std::vector<int> ranks;
  for (int i = 1; i < lane.size(); ++i) ranks.push_back((lane.rank() + i) % lane.size());
  return ranks;
}

// A range of elements for each rank, multiples of a cache line but for the last: whole lines are added by one rank.
struct Parts {
  int64_t count, each;
  size_t element;
  Parts(int64_t elements, int ranks, DType dtype) : count(elements), element(size_of(dtype)) {
    const int64_t line = int64_t(64 / element);
    each = ((count + ranks - 1) / ranks + line - 1) / line * line;
  }
  int64_t begin(int part) const { return std::min(count, part * each); }
  int64_t size(int part) const { return begin(part + 1) - begin(part); }
  size_t offset(int part) const { return size_t(begin(part)) * element; }
  size_t bytes(int part) const { return size_t(size(part)) * element; }
};

// Of the lane's device, and in the order of its stream, which is this thread's.
Tensor scratch(const Lane& lane, size_t bytes) {
  MemoryScope scope(MemoryCategory::workspace);
  return Tensor::empty({int64_t(bytes)}, DType::u8, lane.stream().device());
}

kernels::ReduceOp kernel_of(ReduceOp op) {
  if (op == ReduceOp::min) return kernels::ReduceOp::min;
  return op == ReduceOp::max ? kernels::ReduceOp::max : kernels::ReduceOp::sum;
}

// Some elements of each part, from `first` on.
struct Piece {
  const Parts& parts;
  int64_t first, most;
  int64_t size(int part) const { return std::clamp<int64_t>(parts.size(part) - first, 0, most); }
  size_t bytes(int part) const { return size_t(size(part)) * parts.element; }
  size_t offset(int part) const {
    return parts.offset(part) + size_t(std::min(first, parts.size(part))) * parts.element;
  }
};

// Bytes of a part that arrive at once, where the host moves them: what is to be added is still in its cache, and needs little room.
constexpr size_t piece_bytes = size_t(4) << 20;

size_t bytes_at_once(Device device, size_t part_bytes) {
  return device.is_cpu() ? std::min(part_bytes, piece_bytes) : part_bytes;
}

// The sum of a piece of part `lane.rank()` of all ranks' nodes, into its place in `out`, which holds that part alone; the others' arrive
// in `room`.
void reduce_piece(Lane& lane, const Reduction& reduction, const Piece& piece,
                  std::span<const void* const> own, const std::vector<std::vector<TreeNode>>& nodes,
                  void* out, void* room) {
  const int rank = lane.rank();
  size_t most = 0;
  for (const auto& of_rank : nodes) most = std::max(most, of_rank.size());
  std::vector<std::vector<const void*>> sources(nodes.size());
  char* next = static_cast<char*>(room);
  for (size_t k = 0; k < most; ++k) {  // one message per pair and round
    std::vector<Transport::Send> sends;
    std::vector<Transport::Receive> receives;
    for (int other : others(lane)) {
      if (k < own.size()) sends.push_back({other, at(own[k], piece.offset(other)), piece.bytes(other)});
      if (k >= nodes[size_t(other)].size()) continue;
      receives.push_back({other, next, piece.bytes(rank)});
      sources[size_t(other)].push_back(next);
      next += piece.bytes(rank);
    }
    lane.exchange(sends, receives);
  }
  for (const void* node : own) sources[size_t(rank)].push_back(at(node, piece.offset(rank)));
  auto view_of = [&](const void* data) {
    return TensorView{
        const_cast<void*>(data), {piece.size(rank)}, {1}, reduction.dtype, lane.stream().device()};
  };
  std::vector<TensorView> in_order;
  std::vector<TreeNode> all;
  for (size_t r = 0; r < nodes.size(); ++r) {
    for (const void* source : sources[r]) in_order.push_back(view_of(source));
    all.insert(all.end(), nodes[r].begin(), nodes[r].end());
  }
  kernels::ordered_reduce(lane.stream(), in_order, tree_steps(all), kernel_of(reduction.op),
                          reduction.op == ReduceOp::mean ? lane.size() : 1,
                          view_of(at(out, piece.offset(rank) - piece.parts.offset(rank))));
}

// The sum of part `lane.rank()` of all ranks' nodes, piece by piece, into `out`, which holds that part alone.
void reduce_part(Lane& lane, const Reduction& reduction, const Parts& parts, std::span<const void* const> own,
                 const std::vector<std::vector<TreeNode>>& nodes, void* out, void* room) {
  const size_t part = size_t(parts.each) * parts.element;
  const auto most = int64_t(bytes_at_once(lane.stream().device(), part) / parts.element);
  for (int64_t first = 0; first < parts.each; first += most)
    reduce_piece(lane, reduction, {parts, first, most}, own, nodes, out, room);
}

// sum = arrived + own; `sum` may be either.
void add_two(const Lane& lane, DType dtype, int64_t count, const void* arrived, const void* own, void* sum) {
  auto view_of = [&](const void* data) {
    return TensorView{const_cast<void*>(data), {count}, {1}, dtype, lane.stream().device()};
  };
  const TensorView sources[] = {view_of(arrived), view_of(own)};
  const TreeNode both[] = {{0, 1}, {1, 1}};
  kernels::ordered_reduce(lane.stream(), sources, tree_steps(both), kernels::ReduceOp::sum, 1, view_of(sum));
}

}  // namespace

void reduce_nodes(Lane& lane, const Reduction& reduction, std::span<const void* const> own,
                  const std::vector<std::vector<TreeNode>>& nodes, void* out) {
  if (!reduction.count) return;
  const Parts parts(reduction.count, lane.size(), reduction.dtype);
  const int rank = lane.rank();
  const Tensor room = scratch(lane, scatter_room(lane.stream().device(), rank, nodes, parts.bytes(rank)));
  reduce_part(lane, reduction, parts, own, nodes, at(out, parts.offset(rank)), room.view().data);
  std::vector<Transport::Send> sends;
  std::vector<Transport::Receive> receives;
  for (int other : others(lane)) {
    sends.push_back({other, at(out, parts.offset(rank)), parts.bytes(rank)});
    receives.push_back({other, at(out, parts.offset(other)), parts.bytes(other)});
  }
  lane.exchange(sends, receives);
}

void scatter_nodes(Lane& lane, const Reduction& reduction, std::span<const void* const> own,
                   const std::vector<std::vector<TreeNode>>& nodes, void* out, void* room) {
  if (!reduction.count) return;
  Parts parts(reduction.count, lane.size(), reduction.dtype);
  parts.each = reduction.count / lane.size();
  reduce_part(lane, reduction, parts, own, nodes, out, room);
}

size_t scatter_room(Device device, int rank, const std::vector<std::vector<TreeNode>>& nodes, size_t bytes) {
  size_t theirs = 0;
  for (size_t r = 0; r < nodes.size(); ++r)
    if (r != size_t(rank)) theirs += nodes[r].size();
  return theirs * bytes_at_once(device, bytes);
}

void ring_sum(Lane& lane, DType dtype, int64_t count, void* data) {
  const int n = lane.size(), left = (lane.rank() + n - 1) % n, right = (lane.rank() + 1) % n;
  if (n == 1 || count == 0) return;
  if (lane.has_collectives()) return lane.sum(dtype, count, data);
  const Parts parts(count, n, dtype);
  Tensor arrived = scratch(lane, parts.bytes(0));  // the largest part
  auto part_after = [&](int steps) { return ((lane.rank() - steps) % n + n) % n; };
  auto pass_on = [&](int sent, int received, void* to) {
    const Transport::Send send{right, at(data, parts.offset(sent)), parts.bytes(sent)};
    const Transport::Receive receive{left, to, parts.bytes(received)};
    lane.exchange({&send, 1}, {&receive, 1});
  };
  for (int step = 0; step < n - 1; ++step) {
    const int part = part_after(step + 1);
    pass_on(part_after(step), part, arrived.view().data);
    void* own = at(data, parts.offset(part));
    add_two(lane, dtype, parts.size(part), arrived.view().data, own, own);
  }
  for (int step = 0; step < n - 1; ++step) {
    const int part = part_after(step);
    pass_on(part_after(step - 1), part, at(data, parts.offset(part)));
  }
}

void ring_scatter(Lane& lane, DType dtype, int64_t count, const void* in, void* out, void* room) {
  const int n = lane.size(), left = (lane.rank() + n - 1) % n, right = (lane.rank() + 1) % n;
  if (count == 0) return;
  if (lane.has_collectives()) return lane.scatter_sum(dtype, count, in, out);
  const size_t bytes = size_t(count) * size_of(dtype);
  auto part_after = [&](int steps) { return at(in, size_t((lane.rank() + n - 1 - steps) % n) * bytes); };
  const void* sum = part_after(0);  // so far, of the part that this rank has now
  // One sum is sent while the next one arrives.
  for (int step = 1; step < n; ++step) {
    void* arrived = at(room, size_t((step - 1) % 2) * bytes);
    const Transport::Send send{right, sum, bytes};
    const Transport::Receive receive{left, arrived, bytes};
    lane.exchange({&send, 1}, {&receive, 1});
    void* to = step < n - 1 ? arrived : out;
    add_two(lane, dtype, count, arrived, part_after(step), to);
    sum = to;
  }
  copy(lane, sum, out, bytes);
}

// Along a binomial tree: rank root + v has it from root + v without its lowest bit.
void broadcast(Lane& lane, void* data, size_t bytes, int root) {
  if (lane.has_collectives()) return lane.broadcast(data, bytes, root);
  const int n = lane.size(), v = (lane.rank() + n - root) % n;
  auto rank_of = [&](int place) { return (place + root) % n; };
  int bit = 1;
  for (; bit < n && !(v & bit); bit *= 2) {}
  if (v) {
    const Transport::Receive from{rank_of(v - bit), data, bytes};
    lane.exchange({}, {&from, 1});
  }
  for (bit /= 2; bit > 0; bit /= 2) {
    if (v + bit >= n) continue;
    const Transport::Send to{rank_of(v + bit), data, bytes};
    lane.exchange({&to, 1}, {});
  }
}

void all_gather(Lane& lane, const void* in, void* out, size_t bytes) {
  if (lane.has_collectives()) return lane.all_gather(in, out, bytes);
  std::vector<Transport::Send> sends;
  std::vector<Transport::Receive> receives;
  copy(lane, in, at(out, bytes * size_t(lane.rank())), bytes);
  for (int other : others(lane)) {
    sends.push_back({other, in, bytes});
    receives.push_back({other, at(out, bytes * size_t(other)), bytes});
  }
  lane.exchange(sends, receives);
}

void all_to_all(Lane& lane, const void* in, void* out, size_t bytes) {
  std::vector<Transport::Send> sends;
  std::vector<Transport::Receive> receives;
  const size_t own = bytes * size_t(lane.rank());
  copy(lane, at(in, own), at(out, own), bytes);
  for (int other : others(lane)) {
    sends.push_back({other, at(in, bytes * size_t(other)), bytes});
    receives.push_back({other, at(out, bytes * size_t(other)), bytes});
  }
  lane.exchange(sends, receives);
}

// After round k each rank has heard, at some remove, of 2^k ranks.
void barrier(Lane& lane) {
  for (int step = 1; step < lane.size(); step *= 2) {
    char out = 0, in = 0;
    const Transport::Send to{(lane.rank() + step) % lane.size(), &out, 1};
    const Transport::Receive from{(lane.rank() + lane.size() - step) % lane.size(), &in, 1};
    lane.exchange({&to, 1}, {&from, 1});
  }
}

std::vector<std::string> gather_text(Lane& lane, const std::string& text) {
  const uint64_t own = text.size();
  std::vector<uint64_t> sizes(size_t(lane.size()));
  all_gather(lane, &own, sizes.data(), sizeof(own));
  std::vector<std::string> texts;
  for (uint64_t size : sizes) texts.emplace_back(size, '\0');
  texts[size_t(lane.rank())] = text;
  std::vector<Transport::Send> sends;
  std::vector<Transport::Receive> receives;
  for (int other : others(lane)) {
    sends.push_back({other, text.data(), text.size()});
    receives.push_back({other, texts[size_t(other)].data(), texts[size_t(other)].size()});
  }
  lane.exchange(sends, receives);
  return texts;
}

}  // namespace reprise::distributed::collectives
