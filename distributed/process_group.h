// ProcessGroup: ranks that make the same calls in the same order, and exchange and add tensors by them.
//
//   auto group = rp::distributed::ProcessGroup::join({.timeout = std::chrono::minutes(10)});
//   group->all_reduce(x).wait();  // x is the sum over all ranks, with the same bits on any transport
//
// Every rank makes the same calls of all its groups, with the same dtypes, shapes and labels, from one thread at a time, and two
// ranks that share several groups in the same order. Each call is compared with those of two other ranks before anything moves:
// where they differ, all ranks get a DistributedError of kind `mismatch` that names both calls.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/core/tensor.h"
#include "reprise/distributed/communication.h"
#include "reprise/distributed/reduce_op.h"
#include "reprise/distributed/tls_files.h"
#include "reprise/distributed/transport.h"
#include "reprise/distributed/work.h"

namespace reprise::distributed {

/// How long a group waits and what it says then; where its ranks meet; where its tensors are.
/// No time is longer than `longest_time` (distributed/transport.h), 16,777,216 s.
struct GroupOptions {
  /// A rank that does not make a call for so long after another one has begun it is `late`.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// A rank whose process is not heard for so long is `silent`: it is stopped, or its machine is gone. Heartbeats are sent by
  /// a thread of their own, however long the computation takes. 0: none is, for debuggers; else a second or more; nothing: 3 s where
  /// rank 0's address is of loopback, and 10 s between machines.
  std::optional<std::chrono::milliseconds> peer_timeout{};
  /// A call that waits for longer is told once, with the ranks that have not made it.
  std::chrono::milliseconds notice_after = std::chrono::seconds(10);
  std::function<void(const std::string& line)> tell{};  ///< by what; empty: a line on standard error
  /// A file of mode 0600 with the job's token, which ranks beyond loopback prove to one another; empty:
  /// REPRISE_JOB_TOKEN, if that is set (distributed/hub/token.h).
  std::string token_file{};
  /// What rank 0 listens on; empty: the launcher's address for it. "0.0.0.0" is all networks of its machine, of which it warns.
  std::string bind{};
  /// The files that encrypt the connections between ranks, for tensors on the CPU; empty: these are open, with a token too.
  TlsFiles tls{};
  /// Where this rank's tensors are, beside the CPU: a GPU that no other rank uses, for which NCCL moves them.
  Device device = Device::cpu();
};

/// Error where one of its times is below 0 or too long, or the timeout is 0.
void check_times(const GroupOptions& options);

class GroupCalls;

/// This rank's part in a group: ranks that make the same calls in the same order. A failure ends all groups of the
/// world.
class ProcessGroup {
 public:
  /// The group of all ranks, "world", as the launcher's variables say (distributed/environment.h): a group of one without
  /// them. Error if they are wrong, if the other ranks do not come within the timeout, if this build has no transport, or if
  /// two ranks have one GPU, or if TLS is asked for and cannot be had: with one rank, a GPU, or a Gloo without it.
  static std::unique_ptr<ProcessGroup> join(const GroupOptions& options = {});
  /// The group of one rank: every call is done at once by the same code, without a transport.
  static std::unique_ptr<ProcessGroup> alone(const GroupOptions& options = {});
  /// The world of a transport.
  static std::unique_ptr<ProcessGroup> over(std::shared_ptr<Transport> transport,
                                            const GroupOptions& options = {});

  /// Leaves. Calls that are still in progress fail on all ranks.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;

  int rank() const;                 ///< of this process in the group, in [0, size())
  int size() const;                 ///< ranks of the group
  const std::string& name() const;  ///< "world", or what `subgroup` was given
  Device device() const;            ///< of the options

  // Tensors are contiguous, on the group's device or on the CPU, the same on all ranks, and require no grad where they
  // are written in grad mode. Where there are two, they do not overlap, unless one is the other's part of this rank. An
  // empty tensor counts as a call and moves nothing. A result's version goes up as the call is made. A `label` names
  // the tensor in errors and must be the same on all ranks. Bad input is an Error here, before the call counts.

  /// x = op over all ranks, in the order of a tree over them (distributed/tree.h).
  Work all_reduce(const Tensor& x, ReduceOp op = ReduceOp::sum, const std::string& label = "");
  /// out = part `rank()` of size() equal ones of op over all ranks' `in`.
  Work reduce_scatter(const Tensor& out, const Tensor& in, ReduceOp op = ReduceOp::sum,
                      const std::string& label = "");
  /// out = the sum over leaves 0 ... leaves-1, of which this rank has added those of leaves_of_rank(rank(), size(), leaves)
  /// into the tensors `nodes`, one for each of nodes_of that range. `out` may be one of them.
  Work sum_nodes(const Tensor& out, const TensorList& nodes, int64_t leaves, const std::string& label = "");
  /// out = part rank() of size() equal ones of that sum. `out` may be that part of one of `nodes`.
  Work scatter_nodes(const Tensor& out, const TensorList& nodes, int64_t leaves,
                     const std::string& label = "");
  /// x = the sum over all ranks, each part of x added from another rank on: bits depend on the number of ranks, and every
  /// rank has the same. It sends what all_reduce sends. On a GPU NCCL adds, in its own order, which may change from call to call.
  Work ring_sum(const Tensor& x, const std::string& label = "");
  /// out = part rank() of size() equal ones of a sum over all ranks' `in`, which is added as ring_sum is, in another order. It sends
  /// what reduce_scatter sends, and takes room for two parts where that takes it for those of all others.
  Work ring_scatter(const Tensor& out, const Tensor& in, const std::string& label = "");
  Work broadcast(const Tensor& x, int root, const std::string& label = "");  ///< x = that of rank `root`
  /// out = the `in` of all ranks, in their order.
  Work all_gather(const Tensor& out, const Tensor& in, const std::string& label = "");
  /// Part r of size() equal parts of `in` goes to rank r, and part r of `out` comes from rank r. They do not overlap.
  Work all_to_all(const Tensor& out, const Tensor& in, const std::string& label = "");

  /// To one rank; only these two make the call. A send is done when it was received, so both make their calls in one order:
  /// where a send meets a send, it is a `mismatch`.
  Work send(const Tensor& x, int to, const std::string& label = "");
  /// x = what rank `from` sends in the call that meets this one; dtype, shape and label are the same in both.
  Work recv(const Tensor& x, int from, const std::string& label = "");

  /// Memory of the group's GPU that NCCL knows on all ranks (a symmetric window), so that what it moves from there it copies less
  /// often: a flat tensor of `numel` elements or a few more, not initialised. Undefined on all ranks where there is none: on the CPU, in
  /// a group of one, where NCCL is older than 2.27 or refuses. A call of all ranks, which returns when all have made it.
  /// Calls on a part of it are on the same part on all ranks.
  Tensor make_window(int64_t numel, DType dtype, const std::string& label = "");
  /// It need not be a window any longer: each rank says so by itself, by any thread, once it makes no more calls on it. The group keeps the
  /// memory of its windows until then.
  void end_window(const Tensor& window);
  /// Of the memory of its windows on this rank.
  size_t window_bytes() const;

  void barrier();                                                 ///< returns when all ranks have called it
  std::vector<std::string> gather_text(const std::string& text);  ///< of all ranks, in their order

  /// The group of these ranks of this one, ascending, this rank among them; called by them only, and matched by name and
  /// members. Its errors end all groups of the world.
  std::unique_ptr<ProcessGroup> subgroup(const std::vector<int>& ranks, const std::string& name);

  /// Ends all groups of the world on all ranks: their calls throw a DistributedError of kind `left` with `reason`.
  void abort(const std::string& reason);
  /// Does what other ranks wait for: what `act` throws here ends all groups of the world, as what a call meets itself does, and is
  /// thrown. The others hear that this rank failed in `what`.
  void while_others_wait(const std::string& what, const std::function<void()>& act);
  /// Throws the error that ended the world, if one did: a DistributedError, or what this rank met itself in a call. What a GPU
  /// made of a call that failed is of no use, so that this is the cause where it looks wrong.
  void check_alive() const;
  /// Waits for the calls in progress, then tells the other ranks that this one makes no more: calls that wait for it fail.
  void leave();

  // What follows may be called by any thread, at any time.

  /// From now on the last 4,096 calls of each group of this rank are written to FOLDER/rank-K.jsonl where a failure ends the
  /// world; its errors name the file.
  void record_to(const std::string& folder);
  /// The step of the training run that this rank is at: errors of calls say it.
  void set_step(int64_t step);
  /// What this rank computed: `Computation` (distributed/flight/computation.h) calls it. Times in seconds since 1970.
  void record_computation(const std::string& name, double begun, double done);
  /// Writes them now; the file's path, or nothing where there is no folder or it cannot be written.
  std::string write_calls(const std::string& reason);
  /// What the calls of all groups of this rank have cost so far.
  Communication communication() const;
  /// What has ended the world, as soon as this process knows it, whether or not a call has met it.
  std::optional<Failure> failure() const;

 private:
  explicit ProcessGroup(std::unique_ptr<GroupCalls> calls);
  std::unique_ptr<GroupCalls> calls_;
};

}  // namespace reprise::distributed
