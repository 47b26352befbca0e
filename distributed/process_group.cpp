#include "reprise/distributed/process_group.h"

#include <algorithm>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/replay_filter.h"
#include "reprise/core/listing.h"
#include "reprise/core/overlap.h"
#include "reprise/core/quote.h"
#include "reprise/distributed/collectives.h"
#include "reprise/distributed/group_calls.h"

namespace reprise::distributed {
namespace {

void* data_of(const Tensor& x) { return x.view().data; }
size_t bytes_of(const Tensor& x) { return size_t(x.numel()) * size_of(x.dtype()); }

void check_tensor(Device device, const std::string& op, const char* what, const Tensor& x) {
  check(x.defined(), op, ": ", what, " is undefined");
  check(!x.is_hollow(), op, ": ", what, " has no data");
  check(x.device().is_cpu() || x.device() == device, op, ": ", what, " is on ", x.device(),
        ", the group's tensors are on ", device.is_cpu() ? "the CPU" : detail::join("the CPU or ", device));
  check(x.is_contiguous(), op, ": ", what, ' ', x.dtype(), x.shape(), " is not contiguous; use contiguous()");
}

void check_result(Device device, const std::string& op, const char* what, const Tensor& x) {
  check_tensor(device, op, what, x);
  check(!(autograd::grad_mode_enabled() && x.requires_grad()), op, ": ", what,
        " requires grad, and what is written to it is not recorded; use NoGrad");
  autograd::ReplayFilter::check_write(op.c_str(), x);
}

void check_alike(const std::string& op, const Tensor& out, const Tensor& in) {
  check(out.dtype() == in.dtype(), op, ": in is ", in.dtype(), ", out is ", out.dtype());
  check(out.device() == in.device(), op, ": in is on ", in.device(), ", out is on ", out.device());
}

using RankNodes = std::vector<std::vector<TreeNode>>;

RankNodes one_leaf_per_rank(int ranks) {
  RankNodes nodes;
  for (int r = 0; r < ranks; ++r) nodes.push_back({{r, 1}});
  return nodes;
}

RankNodes shares_of(int64_t leaves, int ranks) {
  RankNodes nodes;
  for (int r = 0; r < ranks; ++r) {
    const LeafRange range = leaves_of_rank(r, ranks, leaves);
    nodes.push_back(nodes_of(range.begin, range.end));
  }
  return nodes;
}

// `own` are one for each of this rank's nodes, each of `numel` elements.
void check_nodes(Device device, const std::string& op, const TensorList& own, size_t count, int64_t leaves,
                 const Tensor& out, int64_t numel) {
  check(own.size() == count, op, ": ", own.size(), " nodes; this rank's share of ", leaves, " leaves has ",
        count);
  for (const Tensor& node : own) {
    check_tensor(device, op, "a node", node);
    check_alike(op, out, node);
    check(node.numel() == numel, op, ": a node has ", node.numel(), " elements, should have ", numel);
  }
}

std::vector<const void*> sources_of(const TensorList& nodes) {
  std::vector<const void*> sources;
  for (const Tensor& node : nodes) sources.push_back(data_of(node));
  return sources;
}

// `small` is part `rank` of `large`, or apart from it.
void check_apart(const std::string& op, const Tensor& small, const Tensor& large, int rank) {
  if (!ranges_meet(small, large)) return;
  const char* part = static_cast<const char*>(data_of(large)) + size_t(rank) * bytes_of(small);
  check(data_of(small) == part, op, ": in and out overlap, and not as part ", rank, " of the whole");
}

// `out` is this rank's part of what is made of all ranks' `in`.
void check_scattered(const ProcessGroup& group, const std::string& op, const Tensor& out, const Tensor& in) {
  check_result(group.device(), op, "out", out);
  check_tensor(group.device(), op, "in", in);
  check_alike(op, out, in);
  check(in.numel() == out.numel() * group.size(), op, ": in has ", in.numel(), " elements, ", group.size(),
        " parts of out's ", out.numel(), " are ", out.numel() * group.size());
  check_apart(op, out, in, group.rank());
}

// While it lives, no other thread makes a call of any group of this rank.
class OneCaller {
 public:
  explicit OneCaller(GroupCalls& calls) : busy_(calls.world().busy()) {
    check(!busy_.test_and_set(), "group ", calls.name(),
          ": two threads call groups of this rank at once; their order would differ between ranks");
  }
  ~OneCaller() { busy_.clear(); }

 private:
  std::atomic_flag& busy_;
};

}  // namespace

void check_times(const GroupOptions& options) {
  check(options.timeout.count() > 0, "ProcessGroup: the timeout is ", options.timeout.count(), " ms");
  check_time("ProcessGroup: timeout", options.timeout);
  check_time("ProcessGroup: peer_timeout", options.peer_timeout.value_or(std::chrono::milliseconds(0)));
  check_time("ProcessGroup: notice_after", options.notice_after);
}

ProcessGroup::ProcessGroup(std::unique_ptr<GroupCalls> calls) : calls_(std::move(calls)) {}

ProcessGroup::~ProcessGroup() {
  if (calls_->is_settled()) return;
  try {
    abort("its group " + name() + " was destroyed with calls in progress");
  } catch (const std::exception&) {}  // the queue ends all the same
}

std::unique_ptr<ProcessGroup> ProcessGroup::over(std::shared_ptr<Transport> transport,
                                                 const GroupOptions& options) {
  check_times(options);
  auto world = std::make_shared<World>(std::move(transport), options.notice_after, options.tell);
  std::vector<int> members;
  for (int rank = 0; rank < world->ranks(); ++rank) members.push_back(rank);
  return std::unique_ptr<ProcessGroup>(
      new ProcessGroup(std::make_unique<GroupCalls>(world, "world", std::move(members), 0, options)));
}

std::unique_ptr<ProcessGroup> ProcessGroup::alone(const GroupOptions& options) {
  check_no_tls(options.tls, "one rank has no connections; leave it out");
  return over(nullptr, options);
}

int ProcessGroup::rank() const { return calls_->lane().rank(); }
int ProcessGroup::size() const { return calls_->lane().size(); }
const std::string& ProcessGroup::name() const { return calls_->name(); }
Device ProcessGroup::device() const { return calls_->device(); }

Work ProcessGroup::all_reduce(const Tensor& x, ReduceOp op, const std::string& label) {
  OneCaller caller(*calls_);
  check_result(device(), "all_reduce", "x", x);
  check_reducible("all_reduce", op, x.dtype());
  const RankNodes nodes = one_leaf_per_rank(size());
  return calls_->submit(
      make_call("all_reduce", std::string(name_of(op)), x, label), {x}, {}, [=](Lane& lane) {
        const void* own = data_of(x);
        collectives::reduce_nodes(lane, {x.dtype(), op, x.numel()}, {&own, 1}, nodes, data_of(x));
      });
}

Work ProcessGroup::reduce_scatter(const Tensor& out, const Tensor& in, ReduceOp op,
                                  const std::string& label) {
  OneCaller caller(*calls_);
  check_scattered(*this, "reduce_scatter", out, in);
  check_reducible("reduce_scatter", op, in.dtype());
  const RankNodes nodes = one_leaf_per_rank(size());
  return calls_->submit_and_keep(
      make_call("reduce_scatter", std::string(name_of(op)), in, label), out, {in},
      collectives::scatter_room(out.device(), rank(), nodes, bytes_of(out)), [=](Lane& lane, void* room) {
        const void* own = data_of(in);
        collectives::scatter_nodes(lane, {in.dtype(), op, in.numel()}, {&own, 1}, nodes, data_of(out), room);
      });
}

Work ProcessGroup::sum_nodes(const Tensor& out, const TensorList& nodes, int64_t leaves,
                             const std::string& label) {
  OneCaller caller(*calls_);
  check_result(device(), "sum_nodes", "out", out);
  check_reducible("sum_nodes", ReduceOp::sum, out.dtype());
  const RankNodes all = shares_of(leaves, size());
  check_nodes(device(), "sum_nodes", nodes, all[size_t(rank())].size(), leaves, out, out.numel());
  for (const Tensor& node : nodes)
    check(data_of(node) == data_of(out) || !ranges_meet(node, out), "sum_nodes: a node and out overlap");
  return calls_->submit(make_call("sum_nodes", detail::join("of ", leaves), out, label), {out}, nodes,
                        [=](Lane& lane) {
                          collectives::reduce_nodes(lane, {out.dtype(), ReduceOp::sum, out.numel()},
                                                    sources_of(nodes), all, data_of(out));
                        });
}

Work ProcessGroup::scatter_nodes(const Tensor& out, const TensorList& nodes, int64_t leaves,
                                 const std::string& label) {
  OneCaller caller(*calls_);
  check_result(device(), "scatter_nodes", "out", out);
  check_reducible("scatter_nodes", ReduceOp::sum, out.dtype());
  const RankNodes all = shares_of(leaves, size());
  const int64_t numel = out.numel() * size();
  check_nodes(device(), "scatter_nodes", nodes, all[size_t(rank())].size(), leaves, out, numel);
  for (const Tensor& node : nodes) check_apart("scatter_nodes", out, node, rank());
  return calls_->submit_and_keep(
      make_call("scatter_nodes", detail::join("of ", leaves), nodes.front(), label), out, nodes,
      collectives::scatter_room(out.device(), rank(), all, bytes_of(out)), [=](Lane& lane, void* room) {
        collectives::scatter_nodes(lane, {out.dtype(), ReduceOp::sum, numel}, sources_of(nodes), all,
                                   data_of(out), room);
      });
}

Work ProcessGroup::ring_sum(const Tensor& x, const std::string& label) {
  OneCaller caller(*calls_);
  check_result(device(), "ring_sum", "x", x);
  check_reducible("ring_sum", ReduceOp::sum, x.dtype());
  return calls_->submit(make_call("ring_sum", "", x, label), {x}, {},
                        [=](Lane& lane) { collectives::ring_sum(lane, x.dtype(), x.numel(), data_of(x)); });
}

Work ProcessGroup::ring_scatter(const Tensor& out, const Tensor& in, const std::string& label) {
  OneCaller caller(*calls_);
  check_scattered(*this, "ring_scatter", out, in);
  check_reducible("ring_scatter", ReduceOp::sum, in.dtype());
  const size_t parts = out.device().is_cpu() ? size_t(std::min(size() - 1, 2)) : 0;  // on GPUs NCCL adds
  return calls_->submit_and_keep(make_call("ring_scatter", "", in, label), out, {in}, parts * bytes_of(out),
                                 [=](Lane& lane, void* room) {
                                   collectives::ring_scatter(lane, out.dtype(), out.numel(), data_of(in),
                                                             data_of(out), room);
                                 });
}

Work ProcessGroup::broadcast(const Tensor& x, int root, const std::string& label) {
  OneCaller caller(*calls_);
  check(root >= 0 && root < size(), "broadcast: there is no rank ", root, " among ", size());
  if (root == rank())
    check_tensor(device(), "broadcast", "x", x);
  else
    check_result(device(), "broadcast", "x", x);
  const TensorList results = root == rank() ? TensorList{} : TensorList{x};
  return calls_->submit(make_call("broadcast", detail::join("from ", root), x, label), results, {x},
                        [=](Lane& lane) { collectives::broadcast(lane, data_of(x), bytes_of(x), root); });
}

Work ProcessGroup::all_gather(const Tensor& out, const Tensor& in, const std::string& label) {
  OneCaller caller(*calls_);
  check_result(device(), "all_gather", "out", out);
  check_tensor(device(), "all_gather", "in", in);
  check_alike("all_gather", out, in);
  check(out.numel() == in.numel() * size(), "all_gather: out has ", out.numel(), " elements, ", size(),
        " parts of in's ", in.numel(), " are ", in.numel() * size());
  check_apart("all_gather", in, out, rank());
  return calls_->submit(make_call("all_gather", "", in, label), {out}, {in}, [=](Lane& lane) {
    collectives::all_gather(lane, data_of(in), data_of(out), bytes_of(in));
  });
}

Work ProcessGroup::all_to_all(const Tensor& out, const Tensor& in, const std::string& label) {
  OneCaller caller(*calls_);
  check_result(device(), "all_to_all", "out", out);
  check_tensor(device(), "all_to_all", "in", in);
  check_alike("all_to_all", out, in);
  check(in.numel() == out.numel() && in.numel() % size() == 0, "all_to_all: in has ", in.numel(),
        " elements and out ", out.numel(), "; both have the same number, a multiple of the ", size(),
        " ranks");
  check(!ranges_meet(in, out), "all_to_all: in and out overlap");
  return calls_->submit(make_call("all_to_all", "", in, label), {out}, {in}, [=](Lane& lane) {
    collectives::all_to_all(lane, data_of(in), data_of(out), bytes_of(in) / size_t(lane.size()));
  });
}

Work ProcessGroup::send(const Tensor& x, int to, const std::string& label) {
  OneCaller caller(*calls_);
  check(to >= 0 && to < size(), "send: there is no rank ", to, " among ", size());
  check(to != rank(), "send: rank ", to, " is this one");
  check_tensor(device(), "send", "x", x);
  Call call = make_call("send", detail::join("from ", rank(), " to ", to), x, label);
  call.answer = "recv";
  return calls_->submit_to(to, std::move(call), {}, {x},
                           [=](Lane& lane) { lane.send(to, data_of(x), bytes_of(x)); });
}

Work ProcessGroup::recv(const Tensor& x, int from, const std::string& label) {
  OneCaller caller(*calls_);
  check(from >= 0 && from < size(), "recv: there is no rank ", from, " among ", size());
  check(from != rank(), "recv: rank ", from, " is this one");
  check_result(device(), "recv", "x", x);
  Call call = make_call("recv", detail::join("from ", from, " to ", rank()), x, label);
  call.answer = "send";
  return calls_->submit_to(from, std::move(call), {x}, {},
                           [=](Lane& lane) { lane.receive(from, data_of(x), bytes_of(x)); });
}

Tensor ProcessGroup::make_window(int64_t numel, DType dtype, const std::string& label) {
  OneCaller caller(*calls_);
  check(numel > 0, "make_window: a window of ", numel, " elements");
  return calls_->make_window(numel, dtype, label);
}

void ProcessGroup::end_window(const Tensor& window) { calls_->end_window(window); }

size_t ProcessGroup::window_bytes() const { return calls_->window_bytes(); }

void ProcessGroup::barrier() {
  OneCaller caller(*calls_);
  calls_->submit(make_call("barrier", "", {}, ""), {}, {}, [](Lane& lane) { collectives::barrier(lane); })
      .wait();
}

std::vector<std::string> ProcessGroup::gather_text(const std::string& text) {
  if (calls_->computes_nothing("gather_text")) return std::vector<std::string>(size_t(size()), text);
  OneCaller caller(*calls_);
  std::vector<std::string> texts;
  calls_
      ->submit(make_call("gather_text", "", {}, ""), {}, {},
               [&](Lane& lane) { texts = collectives::gather_text(lane, text); })
      .wait();
  return texts;
}

std::unique_ptr<ProcessGroup> ProcessGroup::subgroup(const std::vector<int>& ranks,
                                                     const std::string& called) {
  OneCaller caller(*calls_);
  Listing listed;
  for (int r : ranks) listed.add("rank ", r);
  check(!ranks.empty() && std::ranges::is_sorted(ranks, std::less_equal<>()) && ranks.front() >= 0 &&
            ranks.back() < size(),
        "subgroup ", quote(called), ": its ranks are to be ascending and from 0 to ", size() - 1, ":",
        listed.str());
  check(std::ranges::find(ranks, rank()) != ranks.end(), "subgroup ", quote(called), ": rank ", rank(),
        " calls it and is none of its members:", listed.str());
  return std::unique_ptr<ProcessGroup>(new ProcessGroup(calls_->subgroup(ranks, called)));
}

void ProcessGroup::abort(const std::string& reason) { calls_->abort(reason); }

void ProcessGroup::while_others_wait(const std::string& what, const std::function<void()>& act) {
  World& world = calls_->world();
  try {
    act();
  } catch (const DistributedError&) {
    throw;  // it has ended already
  } catch (const std::bad_alloc&) {
    world.fail_by_own(what, "out of memory");
    throw;
  } catch (const std::exception& error) {
    world.fail_by_own(what, error.what());
    throw;
  }
}

void ProcessGroup::check_alive() const { calls_->world().check_alive("check_alive"); }

void ProcessGroup::leave() {
  OneCaller caller(*calls_);
  calls_->wait_until_idle();
  calls_->world().leave();
}

void ProcessGroup::record_to(const std::string& folder) { calls_->world().recorder().set_folder(folder); }

void ProcessGroup::set_step(int64_t step) { calls_->world().step = step; }

void ProcessGroup::record_computation(const std::string& name, double begun, double done) {
  World& world = calls_->world();
  if (world.ranks() > 1) world.recorder().add({name, world.step, begun, done});
}

std::string ProcessGroup::write_calls(const std::string& reason) {
  return calls_->world().recorder().write(reason);
}

Communication ProcessGroup::communication() const { return calls_->world().meter()->read(); }

std::optional<Failure> ProcessGroup::failure() const {
  const auto& transport = calls_->world().transport();
  return transport ? transport->failure() : std::nullopt;
}

}  // namespace reprise::distributed
