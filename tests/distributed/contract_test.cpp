// What every transport has to do: each operation x dtype x size x ranks x subgroups, to the bit, against sums that are
// computed here from the definition of the tree.
// labels: slow, concurrency
// not in tsan: Transports/Contract.*/nccl*:Transports/Contract.*/threads1:Transports/Contract.*/threads2:Transports/Contract.*/threads4
// not in asan: Transports/Contract.*3:Transports/Contract.*4:Transports/Contract.*Reduce*/nccl1:Transports/Contract.*Reduce*/nccl5
#include <gtest/gtest.h>

#include <cstring>

#include "reprise/core/hash.h"
#include "reprise/distributed/tree.h"
#include "reprise/tests/distributed/ranks.h"

namespace reprise::distributed {
namespace {

using testing::expect_ranks_well;
using testing::Ranks;

constexpr DType kReducible[] = {DType::f64, DType::f32, DType::bf16, DType::f16,
                                DType::i64, DType::i32, DType::u8};
constexpr DType kMoved[] = {DType::f64, DType::bf16, DType::i32, DType::u8, DType::boolean};

// Elements of each of `parts`; the largest tensor is one of 1 MiB and a bit.
std::vector<int64_t> sizes_of(DType dtype, int parts = 1) {
  return {0, 1, 1027, (int64_t(1) << 20) / int64_t(size_of(dtype)) / parts + 3};
}

// Element i of what a rank gives: of any sign and of sizes far apart, so that each other order rounds otherwise.
template <class T>
T element(int rank, int64_t i) {
  const uint64_t random = mix(mix(uint64_t(rank) + 77, uint64_t(i)));
  if constexpr (std::is_same_v<T, bool>) return random % 2;
  if constexpr (std::is_integral_v<T>)
    return T(random);
  else
    return T((float(random % 2048) - 1024) * (1.0f / 1024) * float(1 << (random >> 32) % 9));
}

Tensor elements(const ProcessGroup& group, DType dtype, int rank, int64_t count) {
  Tensor x = Tensor::empty({count}, dtype);
  dispatch_all(dtype, [&]<class T>() {
    T* data = static_cast<T*>(x.view().data);
    for (int64_t i = 0; i < count; ++i) data[i] = element<T>(rank, i);
  });
  return x.to(group.device());
}

// One node of the tree, from its two halves.
template <class T>
T add(T a, T b, ReduceOp op) {
  if (op == ReduceOp::min) return b < a ? b : a;
  if (op == ReduceOp::max) return a < b ? b : a;
  if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, int32_t>)
    return T(uint64_t(a) + uint64_t(b));
  else if constexpr (std::is_same_v<T, double>)
    return a + b;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return T(a + b);
  else
    return T(float(a) + float(b));
}

// Of `count` leaves: the left child has the largest power of two of them that leaves some to the right.
template <class T>
T tree(const T* leaves, int64_t count, ReduceOp op) {
  if (count == 1) return leaves[0];
  int64_t left = 1;
  while (2 * left < count) left *= 2;
  return add(tree(leaves, left, op), tree(leaves + left, count - left, op), op);
}

constexpr int kMostLeaves = 64;

template <class T>
T element_of_node(const TreeNode& node, int64_t i) {
  T leaves[kMostLeaves];
  for (int64_t k = 0; k < node.size; ++k) leaves[k] = element<T>(int(node.begin + k), i);
  return tree(leaves, node.size, ReduceOp::sum);
}

template <class T>
T reduced(int ranks, int64_t i, ReduceOp op) {
  T leaves[kMostLeaves];
  for (int rank = 0; rank < ranks; ++rank) leaves[rank] = element<T>(rank, i);
  const T result = tree(leaves, ranks, op);
  if constexpr (!std::is_integral_v<T>) {
    if (op == ReduceOp::mean && std::is_same_v<T, double>) return T(double(result) / ranks);
    if (op == ReduceOp::mean) return T(float(result) / float(ranks));
  }
  return result;
}

// The first element of x that has not the bits of want(i).
template <class T>
std::string difference(const std::string& what, const Tensor& x, auto&& want) {
  const Tensor host = x.to(Device::cpu());
  const T* data = static_cast<const T*>(host.view().data);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const T wanted = want(i);
    if (std::memcmp(&data[i], &wanted, sizeof(T)))
      return detail::join(what, ' ', x.dtype(), x.shape(), " element ", i, ": got ", double(data[i]),
                          ", want ", double(wanted));
  }
  return "";
}

std::string check_all_reduce(ProcessGroup& group, DType dtype, int64_t count, ReduceOp op) {
  Tensor x = elements(group, dtype, group.rank(), count);
  const uint64_t version = x.version();
  group.all_reduce(x, op, "x").wait();
  if (x.version() == version) return "all_reduce: the version did not go up";
  return dispatch_all(dtype, [&]<class T>() {
    return difference<T>(detail::join("all_reduce ", name_of(op)), x,
                         [&](int64_t i) { return reduced<T>(group.size(), i, op); });
  });
}

std::string check_reduce_scatter(ProcessGroup& group, DType dtype, int64_t count, bool in_place) {
  const int64_t begin = count * group.rank();
  Tensor in = elements(group, dtype, group.rank(), count * group.size());
  Tensor out = in_place ? in.slice(0, begin, begin + count) : Tensor::empty({count}, dtype, group.device());
  group.reduce_scatter(out, in, ReduceOp::sum).wait();
  return dispatch_all(dtype, [&]<class T>() {
    return difference<T>("reduce_scatter", out,
                         [&](int64_t i) { return reduced<T>(group.size(), begin + i, ReduceOp::sum); });
  });
}

std::string check_moves(ProcessGroup& group, DType dtype, int64_t count) {
  const int n = group.size();
  std::string wrong;
  for (int root : {0, n / 2, n - 1}) {
    Tensor x = elements(group, dtype, group.rank(), count);
    group.broadcast(x, root).wait();
    wrong += dispatch_all(dtype, [&]<class T>() {
      return difference<T>("broadcast", x, [&](int64_t i) { return element<T>(root, i); });
    });
  }
  for (bool in_place : {false, true}) {
    Tensor all = Tensor::zeros({count * n}, dtype, group.device());
    Tensor own = elements(group, dtype, group.rank(), count);
    if (in_place && count) own = all.slice(0, count * group.rank(), count * (group.rank() + 1)).copy_(own);
    group.all_gather(all, own).wait();
    wrong += dispatch_all(dtype, [&]<class T>() {
      return difference<T>("all_gather", all,
                           [&](int64_t i) { return element<T>(int(i / count), i % count); });
    });
  }
  Tensor in = elements(group, dtype, group.rank(), count * n),
         out = Tensor::zeros({count * n}, dtype, group.device());
  group.all_to_all(out, in).wait();
  return wrong + dispatch_all(dtype, [&]<class T>() {
           return difference<T>("all_to_all", out, [&](int64_t i) {
             return element<T>(int(i / count), count * group.rank() + i % count);
           });
         });
}

// Each rank sends to the next one, even ranks first, twice.
std::string check_pairs(ProcessGroup& group, DType dtype, int64_t count) {
  const int n = group.size(), next = (group.rank() + 1) % n, previous = (group.rank() + n - 1) % n;
  if (n == 1) return "";
  std::string wrong;
  for (int round = 0; round < 2; ++round) {
    Tensor sent = elements(group, dtype, group.rank() + round, count),
           got = Tensor::zeros({count}, dtype, group.device());
    if (group.rank() % 2 == 0) group.send(sent, next).wait();
    group.recv(got, previous).wait();
    if (group.rank() % 2 == 1) group.send(sent, next).wait();
    wrong += dispatch_all(dtype, [&]<class T>() {
      return difference<T>("recv", got, [&](int64_t i) { return element<T>(previous + round, i); });
    });
  }
  return wrong;
}

class Contract : public ::testing::TestWithParam<std::tuple<Ranks, int>> {
 protected:
  void run(const testing::RankBody& body) {
    expect_ranks_well(std::get<0>(GetParam()), std::get<1>(GetParam()), body);
  }
};

TEST_P(Contract, AllReduce) {
  run([](ProcessGroup& group) {
    std::string wrong;
    for (DType dtype : kReducible)
      for (int64_t count : sizes_of(dtype))
        for (ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max})
          if ((op != ReduceOp::mean || is_floating(dtype)) && (op == ReduceOp::sum || count < 10000))
            wrong += check_all_reduce(group, dtype, count, op);
    return wrong;
  });
}

TEST_P(Contract, ReduceScatter) {
  run([](ProcessGroup& group) {
    std::string wrong;
    for (DType dtype : kReducible)
      for (int64_t count : sizes_of(dtype, group.size()))
        for (bool in_place : {false, true}) wrong += check_reduce_scatter(group, dtype, count, in_place);
    return wrong;
  });
}

TEST_P(Contract, MovesBytes) {
  run([](ProcessGroup& group) {
    std::string wrong;
    for (DType dtype : kMoved)
      for (int64_t count : sizes_of(dtype, group.size()))
        wrong += check_moves(group, dtype, count) + check_pairs(group, dtype, count);
    return wrong;
  });
}

// This rank's nodes of a tree over `leaves`, `count` elements each.
template <class T>
TensorList nodes_of_rank(ProcessGroup& group, int64_t leaves, DType dtype, int64_t count) {
  const LeafRange range = leaves_of_rank(group.rank(), group.size(), leaves);
  TensorList nodes;
  for (const TreeNode& node : nodes_of(range.begin, range.end)) {
    const Tensor x = Tensor::empty({count}, dtype);
    for (int64_t i = 0; i < count; ++i) static_cast<T*>(x.view().data)[i] = element_of_node<T>(node, i);
    nodes.push_back(x.to(group.device()));
  }
  return nodes;
}

// Of 12, 20, 30 leaves: ranks hold several nodes where their share is no power of two.
TEST_P(Contract, SumNodes) {
  run([](ProcessGroup& group) {
    std::string wrong;
    for (int64_t leaves :
         {group.size(), 3 * group.size(), 5 * group.size(), 6 * group.size(), 8 * group.size()}) {
      for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
        dispatch_floating(dtype, "test", [&]<class T>() {
          const TensorList nodes = nodes_of_rank<T>(group, leaves, dtype, 1027);
          Tensor out = Tensor::empty({1027}, dtype, group.device());
          group.sum_nodes(out, nodes, leaves).wait();
          auto want = [&](int64_t i) { return reduced<T>(int(leaves), i, ReduceOp::sum); };
          wrong += difference<T>(detail::join("sum_nodes of ", leaves), out, want);
          group.sum_nodes(nodes.back(), nodes, leaves).wait();
          wrong += difference<T>("in place", nodes.back(), want);
        });
      }
    }
    return wrong;
  });
}

// Parts of 5 MiB, of which 4 are added at a time, and then what is left.
TEST_P(Contract, SumsOfSeveralPieces) {
  run([](ProcessGroup& group) {
    if (group.device().is_cuda()) return std::string();  // there a part arrives whole
    constexpr int64_t part = 650'003;
    std::string wrong = check_all_reduce(group, DType::f64, part * group.size(), ReduceOp::sum);
    for (bool in_place : {false, true}) wrong += check_reduce_scatter(group, DType::f64, part, in_place);
    if (group.size() > 2) return wrong;
    const int64_t leaves = 3 * group.size(), count = part * group.size();  // several nodes per rank
    const TensorList nodes = nodes_of_rank<double>(group, leaves, DType::f64, count);
    group.sum_nodes(nodes.front(), nodes, leaves).wait();
    return wrong + difference<double>("sum_nodes", nodes.front(), [&](int64_t i) {
             return reduced<double>(int(leaves), i, ReduceOp::sum);
           });
  });
}

TEST_P(Contract, ScatterNodes) {
  run([](ProcessGroup& group) {
    std::string wrong;
    constexpr int64_t part = 131;
    const int64_t begin = part * group.rank();
    for (int64_t leaves : {group.size(), 3 * group.size(), 5 * group.size(), 8 * group.size()})
      for (DType dtype : {DType::f32, DType::bf16, DType::f64})
        dispatch_floating(dtype, "test", [&]<class T>() {
          const TensorList nodes = nodes_of_rank<T>(group, leaves, dtype, part * group.size());
          Tensor out = Tensor::empty({part}, dtype, group.device());
          auto want = [&](int64_t i) { return reduced<T>(int(leaves), begin + i, ReduceOp::sum); };
          group.scatter_nodes(out, nodes, leaves).wait();
          wrong += difference<T>(detail::join("scatter_nodes of ", leaves), out, want);
          out = nodes.back().slice(0, begin, begin + part);
          group.scatter_nodes(out, nodes, leaves).wait();
          wrong += difference<T>("in place", out, want);
        });
    return wrong;
  });
}

TEST_P(Contract, TextAndBarriers) {
  run([](ProcessGroup& group) -> std::string {
    group.barrier();
    const auto texts = group.gather_text(std::string(size_t(group.rank()) * 7, char('a' + group.rank())));
    for (int r = 0; r < group.size(); ++r)
      if (texts[size_t(r)] != std::string(size_t(r) * 7, char('a' + r)))
        return "gather_text: " + texts[size_t(r)];
    group.barrier();
    return "";
  });
}

TEST_P(Contract, CallsInARowNeedNoWait) {
  run([](ProcessGroup& group) {
    std::string wrong;
    std::vector<Tensor> x;
    std::vector<Work> works;
    for (int k = 0; k < 40; ++k) {
      x.push_back(elements(group, DType::f32, group.rank(), 100 + k));
      works.push_back(group.all_reduce(x.back()));
    }
    for (size_t k = works.size(); k-- > 0;) {
      works[k].wait();
      if (group.device().is_cuda()) works[k].synchronize();
      if (!works[k].is_done() || works[k].seconds() < 0) wrong += "not done";
      wrong += difference<float>("in a row", x[k],
                                 [&](int64_t i) { return reduced<float>(group.size(), i, ReduceOp::sum); });
    }
    return wrong;
  });
}

// Overlapping groups, two of the same name and members, and one within one.
TEST_P(Contract, Subgroups) {
  run([](ProcessGroup& world) {
    std::string wrong;
    std::vector<int> even, last;
    for (int r = 0; r < world.size(); ++r) {
      if (r % 2 == 0) even.push_back(r);
      if (r >= world.size() - 2) last.push_back(r);
    }
    for (const auto& ranks : {even, last, even, last}) {
      if (std::find(ranks.begin(), ranks.end(), world.rank()) == ranks.end()) continue;
      auto group = world.subgroup(ranks, "part");
      auto again = world.subgroup(ranks, "part");
      auto inner = group->subgroup({group->rank()}, "inner");
      if (group->size() != int(ranks.size()) || ranks[size_t(group->rank())] != world.rank())
        wrong += "wrong place";
      for (ProcessGroup* one : {group.get(), again.get(), inner.get()})
        for (DType dtype : {DType::f32, DType::f16})
          wrong += check_all_reduce(*one, dtype, 1027, ReduceOp::sum) + check_moves(*one, dtype, 33);
      // Calls of two groups are made in one order, and run side by side: they may be waited for in another one.
      Tensor x = elements(world, DType::f32, group->rank(), 5),
             y = elements(world, DType::f32, group->rank(), 7);
      std::vector<Work> works{group->all_reduce(x, ReduceOp::sum, "x"),
                              again->all_reduce(y, ReduceOp::sum, "y")};
      if (group->rank() != 0) std::swap(works[0], works[1]);
      for (const Work& work : works) work.wait();
    }
    world.barrier();
    return wrong;
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Contract,
                         ::testing::Combine(::testing::ValuesIn(testing::kinds_with_devices()),
                                            ::testing::Range(1, 6)),
                         [](const auto& of) {
                           return name_of(std::get<0>(of.param)) + std::to_string(std::get<1>(of.param));
                         });

}  // namespace
}  // namespace reprise::distributed
