#include "reprise/distributed/process_group.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/replay_filter.h"
#include "reprise/core/hash.h"
#include "reprise/core/listing.h"
#include "reprise/core/overlap.h"
#include "reprise/core/quote.h"
#include "reprise/distributed/call_queue.h"
#include "reprise/distributed/collectives.h"
#include "reprise/distributed/world.h"

namespace reprise::distributed {
namespace {

using Direction = std::pair<bool, int>;  // whether this rank sends, and the other one

// What a call does on the queue's thread.
using Body = std::function<void(Lane&)>;

void* data_of(const Tensor& x) { return x.view().data; }
size_t bytes_of(const Tensor& x) { return size_t(x.numel()) * size_of(x.dtype()); }

void check_tensor(const std::string& op, const char* what, const Tensor& x) {
  check(x.defined(), op, ": ", what, " is undefined");
  check(!x.is_hollow(), op, ": ", what, " has no data");
  check(x.device().is_cpu(), op, ": ", what, " is on ", x.device(), ", the group's tensors are on the CPU");
  check(x.is_contiguous(), op, ": ", what, ' ', x.dtype(), x.shape(), " is not contiguous; use contiguous()");
}

void check_result(const std::string& op, const char* what, const Tensor& x) {
  check_tensor(op, what, x);
  check(!(autograd::grad_mode_enabled() && x.requires_grad()), op, ": ", what,
        " requires grad, and what is written to it is not recorded; use NoGrad");
  autograd::ReplayFilter::check_write(op.c_str(), x);
}

void check_same_dtype(const std::string& op, const Tensor& out, const Tensor& in) {
  check(out.dtype() == in.dtype(), op, ": in is ", in.dtype(), ", out is ", out.dtype());
}

// `small` is part `rank` of `large`, or apart from it.
void check_apart(const std::string& op, const Tensor& small, const Tensor& large, int rank) {
  if (!ranges_meet(small, large)) return;
  const char* part = static_cast<const char*>(data_of(large)) + size_t(rank) * bytes_of(small);
  check(data_of(small) == part, op, ": in and out overlap, and not as part ", rank, " of the whole");
}

}  // namespace

struct ProcessGroup::Impl {
  std::shared_ptr<World> world;
  std::string name;
  std::vector<int> members;  // ranks of the world
  uint64_t key = 0;          // tells groups apart on the transport
  GroupOptions options;
  Lane lane;
  int64_t sequence = 0;                   // of calls of the whole group
  std::map<Direction, int64_t> pairs{};   // sequences of sends and receives
  std::map<uint64_t, uint64_t> groups{};  // subgroups made so far with one name and members
  std::atomic_flag busy{};
  CallQueue queue{};

  Impl(std::shared_ptr<World> of, std::string called, std::vector<int> ranks, uint64_t number,
       const GroupOptions& given)
      : world(std::move(of)),
        name(std::move(called)),
        members(std::move(ranks)),
        key(number),
        options(given),
        lane(world->transport(), members, int(std::ranges::find(members, world->rank()) - members.begin()),
             key, options.timeout) {}

  // Turns what a transport throws into the error of this call, which ends the world.
  void run(const Call& call, const std::function<void()>& body) {
    const auto begin = Clock::now();
    auto failed = [&](const Failure& failure) {
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      throw world->fail(
          DistributedError(failure, {call.operation, call.sequence, name, call.label}, seconds));
    };
    world->check_alive(call.operation);
    try {
      body();
    } catch (const TransportError& error) {
      failed(error.failure());
    } catch (const std::exception& error) {  // out of memory, say
      failed({FailureKind::left, world->rank(),
              detail::join("rank ", world->rank(), " failed in ", call.operation, ": ", error.what())});
    }
  }

  // A call of all ranks of the group; `results` are written, all of `tensors` kept until it is done.
  Work submit(Call call, const TensorList& results, const TensorList& inputs, Body body) {
    Call next = std::move(call);
    next.sequence = ++sequence;
    run(next, [&] { lane.announce(next); });
    return enqueue(next, results, inputs, [this, next, body = std::move(body)] {
      lane.compare(next, name);
      body(lane);
    });
  }

  Work enqueue(const Call& call, const TensorList& results, const TensorList& inputs,
               std::function<void()> body) {
    for (const Tensor& x : results) x.storage()->bump_version();
    return queue.push([this, call, results, inputs, body = std::move(body)] { run(call, body); });
  }
};

namespace {

// While it lives, no other thread makes a call.
class OneCaller {
 public:
  OneCaller(std::atomic_flag& busy, const std::string& group) : busy_(busy) {
    check(!busy_.test_and_set(), "group ", group,
          ": two threads call it at once; their order would differ between ranks");
  }
  ~OneCaller() { busy_.clear(); }

 private:
  std::atomic_flag& busy_;
};

}  // namespace

ProcessGroup::ProcessGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ProcessGroup::~ProcessGroup() {
  if (impl_->queue.is_idle()) return;
  try {
    abort("its group " + impl_->name + " was destroyed with calls in progress");
  } catch (const std::exception&) {}  // the queue ends all the same
}

std::unique_ptr<ProcessGroup> ProcessGroup::over(std::shared_ptr<Transport> transport,
                                                 const GroupOptions& options) {
  check(options.timeout.count() > 0, "ProcessGroup: the timeout is ", options.timeout.count(), " ms");
  auto world = std::make_shared<World>(std::move(transport));
  std::vector<int> members;
  for (int rank = 0; rank < world->ranks(); ++rank) members.push_back(rank);
  return std::unique_ptr<ProcessGroup>(
      new ProcessGroup(std::make_unique<Impl>(world, "world", std::move(members), 0, options)));
}

std::unique_ptr<ProcessGroup> ProcessGroup::alone(const GroupOptions& options) {
  return over(nullptr, options);
}

int ProcessGroup::rank() const { return impl_->lane.rank(); }
int ProcessGroup::size() const { return impl_->lane.size(); }
const std::string& ProcessGroup::name() const { return impl_->name; }
Device ProcessGroup::device() const { return Device::cpu(); }

Work ProcessGroup::all_reduce(const Tensor& x, ReduceOp op, const std::string& label) {
  OneCaller caller(impl_->busy, name());
  check_result("all_reduce", "x", x);
  check_reducible("all_reduce", op, x.dtype());
  std::vector<std::vector<TreeNode>> nodes;
  for (int r = 0; r < size(); ++r) nodes.push_back({{r, 1}});
  return impl_->submit(make_call("all_reduce", std::string(name_of(op)), x, label), {x}, {}, [=](Lane& lane) {
    const void* own = data_of(x);
    collectives::reduce_nodes(lane, {x.dtype(), op, x.numel()}, {&own, 1}, nodes, data_of(x));
  });
}

Work ProcessGroup::reduce_scatter(const Tensor& out, const Tensor& in, ReduceOp op,
                                  const std::string& label) {
  OneCaller caller(impl_->busy, name());
  check_result("reduce_scatter", "out", out);
  check_tensor("reduce_scatter", "in", in);
  check_same_dtype("reduce_scatter", out, in);
  check_reducible("reduce_scatter", op, in.dtype());
  check(in.numel() == out.numel() * size(), "reduce_scatter: in has ", in.numel(), " elements, ", size(),
        " parts of out's ", out.numel(), " are ", out.numel() * size());
  check_apart("reduce_scatter", out, in, rank());
  return impl_->submit(
      make_call("reduce_scatter", std::string(name_of(op)), in, label), {out}, {in}, [=](Lane& lane) {
        collectives::reduce_scatter(lane, {in.dtype(), op, in.numel()}, data_of(in), data_of(out));
      });
}

Work ProcessGroup::sum_nodes(const Tensor& out, const TensorList& nodes, int64_t leaves,
                             const std::string& label) {
  OneCaller caller(impl_->busy, name());
  check_result("sum_nodes", "out", out);
  check_reducible("sum_nodes", ReduceOp::sum, out.dtype());
  std::vector<std::vector<TreeNode>> all;
  for (int r = 0; r < size(); ++r) {
    const LeafRange range = leaves_of_rank(r, size(), leaves);
    all.push_back(nodes_of(range.begin, range.end));
  }
  const size_t own = all[size_t(rank())].size();
  check(nodes.size() == own, "sum_nodes: ", nodes.size(), " nodes; this rank's share of ", leaves,
        " leaves has ", own);
  for (const Tensor& node : nodes) {
    check_tensor("sum_nodes", "a node", node);
    check_same_dtype("sum_nodes", out, node);
    check(node.numel() == out.numel(), "sum_nodes: a node has ", node.numel(), " elements, out ",
          out.numel());
    check(data_of(node) == data_of(out) || !ranges_meet(node, out), "sum_nodes: a node and out overlap");
  }
  return impl_->submit(make_call("sum_nodes", detail::join("of ", leaves), out, label), {out}, nodes,
                       [=](Lane& lane) {
                         std::vector<const void*> sources;
                         for (const Tensor& node : nodes) sources.push_back(data_of(node));
                         collectives::reduce_nodes(lane, {out.dtype(), ReduceOp::sum, out.numel()}, sources,
                                                   all, data_of(out));
                       });
}

Work ProcessGroup::broadcast(const Tensor& x, int root, const std::string& label) {
  OneCaller caller(impl_->busy, name());
  check(root >= 0 && root < size(), "broadcast: there is no rank ", root, " among ", size());
  if (root == rank())
    check_tensor("broadcast", "x", x);
  else
    check_result("broadcast", "x", x);
  const TensorList results = root == rank() ? TensorList{} : TensorList{x};
  return impl_->submit(make_call("broadcast", detail::join("from ", root), x, label), results, {x},
                       [=](Lane& lane) { collectives::broadcast(lane, data_of(x), bytes_of(x), root); });
}

Work ProcessGroup::all_gather(const Tensor& out, const Tensor& in, const std::string& label) {
  OneCaller caller(impl_->busy, name());
  check_result("all_gather", "out", out);
  check_tensor("all_gather", "in", in);
  check_same_dtype("all_gather", out, in);
  check(out.numel() == in.numel() * size(), "all_gather: out has ", out.numel(), " elements, ", size(),
        " parts of in's ", in.numel(), " are ", in.numel() * size());
  check_apart("all_gather", in, out, rank());
  return impl_->submit(make_call("all_gather", "", in, label), {out}, {in}, [=](Lane& lane) {
    collectives::all_gather(lane, data_of(in), data_of(out), bytes_of(in));
  });
}

Work ProcessGroup::all_to_all(const Tensor& out, const Tensor& in, const std::string& label) {
  OneCaller caller(impl_->busy, name());
  check_result("all_to_all", "out", out);
  check_tensor("all_to_all", "in", in);
  check_same_dtype("all_to_all", out, in);
  check(in.numel() == out.numel() && in.numel() % size() == 0, "all_to_all: in has ", in.numel(),
        " elements and out ", out.numel(), "; both have the same number, a multiple of the ", size(),
        " ranks");
  check(!ranges_meet(in, out), "all_to_all: in and out overlap");
  return impl_->submit(make_call("all_to_all", "", in, label), {out}, {in}, [=](Lane& lane) {
    collectives::all_to_all(lane, data_of(in), data_of(out), bytes_of(in) / size_t(lane.size()));
  });
}

Work ProcessGroup::send(const Tensor& x, int to, const std::string& label) {
  OneCaller caller(impl_->busy, name());
  check(to >= 0 && to < size(), "send: there is no rank ", to, " among ", size());
  check(to != rank(), "send: rank ", to, " is this one");
  check_tensor("send", "x", x);
  Call call = make_call("send", "", x, label);
  call.description = call.description.substr(5);  // what the receiver's call has too
  call.sequence = ++impl_->pairs[{true, to}];
  impl_->run(call, [&] { impl_->lane.announce_to(to, call); });
  return impl_->enqueue(call, {}, {x}, [=, this] { impl_->lane.send(to, data_of(x), bytes_of(x)); });
}

Work ProcessGroup::recv(const Tensor& x, int from, const std::string& label) {
  OneCaller caller(impl_->busy, name());
  check(from >= 0 && from < size(), "recv: there is no rank ", from, " among ", size());
  check(from != rank(), "recv: rank ", from, " is this one");
  check_result("recv", "x", x);
  Call call = make_call("recv", "", x, label);
  call.description = call.description.substr(5);
  call.sequence = ++impl_->pairs[{false, from}];
  return impl_->enqueue(call, {x}, {}, [=, this] {
    impl_->lane.compare_from(from, call, name());
    impl_->lane.receive(from, data_of(x), bytes_of(x));
  });
}

void ProcessGroup::barrier() {
  OneCaller caller(impl_->busy, name());
  impl_->submit(make_call("barrier", "", {}, ""), {}, {}, [](Lane& lane) { collectives::barrier(lane); })
      .wait();
}

std::vector<std::string> ProcessGroup::gather_text(const std::string& text) {
  OneCaller caller(impl_->busy, name());
  std::vector<std::string> texts;
  impl_
      ->submit(make_call("gather_text", "", {}, ""), {}, {},
               [&](Lane& lane) { texts = collectives::gather_text(lane, text); })
      .wait();
  return texts;
}

std::unique_ptr<ProcessGroup> ProcessGroup::subgroup(const std::vector<int>& ranks,
                                                     const std::string& called) {
  OneCaller caller(impl_->busy, name());
  Listing listed;
  for (int r : ranks) listed.add("rank ", r);
  check(!ranks.empty() && std::ranges::is_sorted(ranks, std::less_equal<>()) && ranks.front() >= 0 &&
            ranks.back() < size(),
        "subgroup ", quote(called), ": its ranks are to be ascending and from 0 to ", size() - 1, ":",
        listed.str());
  check(std::ranges::find(ranks, rank()) != ranks.end(), "subgroup ", quote(called), ": rank ", rank(),
        " calls it and is none of its members:", listed.str());
  impl_->world->check_alive("subgroup");
  std::vector<int> members;
  uint64_t key = mix(impl_->key, ranks.size());
  for (char c : called) key = mix(key, uint64_t(uint8_t(c)));
  for (int r : ranks) {
    members.push_back(impl_->members[size_t(r)]);
    key = mix(key, uint64_t(r));
  }
  key = mix(key, ++impl_->groups[key]);
  return std::unique_ptr<ProcessGroup>(new ProcessGroup(
      std::make_unique<Impl>(impl_->world, called, std::move(members), key, impl_->options)));
}

void ProcessGroup::abort(const std::string& reason) {
  const int rank = impl_->world->rank();
  impl_->world->fail(
      DistributedError({FailureKind::left, rank, detail::join("rank ", rank, " aborted: ", reason)},
                       {"abort", impl_->sequence, name(), ""}, 0));
}

void ProcessGroup::leave() {
  OneCaller caller(impl_->busy, name());
  impl_->queue.wait_until_idle();
  impl_->world->leave();
}

}  // namespace reprise::distributed
