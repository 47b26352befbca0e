// GroupCalls: how the calls of one group are made: told to other ranks, recorded, run in their order on a thread of the group,
// compared before anything moves; and what becomes of failures.
#pragma once

#include <map>

#include "reprise/distributed/call_queue.h"
#include "reprise/distributed/device_side.h"
#include "reprise/distributed/lane.h"
#include "reprise/distributed/process_group.h"

namespace reprise::distributed {

class GroupCalls {
 public:
  /// What a call does on the queue's thread, once it has been compared.
  using Body = std::function<void(Lane&)>;

  /// `members`: the group's ranks in the world. `key` tells groups apart.
  GroupCalls(std::shared_ptr<World> world, std::string name, std::vector<int> members, uint64_t key,
             const GroupOptions& options);
  ~GroupCalls();
  GroupCalls(const GroupCalls&) = delete;

  Lane& lane() { return lane_; }
  World& world() { return *world_; }
  const std::string& name() const { return name_; }
  Device device() const { return options_.device; }
  /// Whether calls are to take their memory and move nothing. Error within a NoCompute where other ranks would wait for them.
  bool computes_nothing(const std::string& operation) const;
  bool is_settled() const { return queue_.is_settled(); }
  void wait_until_idle() { queue_.wait_until_idle(); }

  /// A call of all ranks of the group; `results` are written, and all tensors kept until it is done.
  Work submit(Call call, const TensorList& results, const TensorList& inputs, Body body);
  /// The same with `room` bytes beside `result`, to sum in; these and `inputs` are kept until the call has been waited for.
  using BodyInRoom = std::function<void(Lane&, void* room)>;
  Work submit_and_keep(Call call, const Tensor& result, TensorList inputs, size_t room, BodyInRoom body);
  /// A call of this rank and another one of the group.
  Work submit_to(int other, Call call, const TensorList& results, const TensorList& inputs, Body body);
  /// Memory of the device that is a window of NCCL's on all ranks, at least (numel), once all have made this call; undefined
  /// where there are none.
  Tensor make_window(int64_t numel, DType dtype, const std::string& label);
  /// Of a window of this group's.
  void end_window(const Tensor& window);
  size_t window_bytes() const { return device_ ? device_->window_bytes() : 0; }
  /// Ends the world: "rank 2 aborted: ...".
  void abort(const std::string& reason);
  /// The group of some of this one's ranks.
  std::unique_ptr<GroupCalls> subgroup(const std::vector<int>& ranks, const std::string& name);

 private:
  // The call that the queue's thread is in.
  struct Running {
    Call call;
    Clock::time_point since;
    bool is_told = false;
  };
  using Pair = std::pair<std::string, int>;  // operation, the other rank

  Work make(const Call& call, const TensorList& results, const TensorList& inputs, Body body,
            const std::function<std::vector<Lane::Place>()>& announce);
  void run(const Call& call, const std::function<void()>& body);
  std::optional<Failure> failure_of_another() const;
  void play(const Call& call, int64_t number, const std::function<void()>& body);
  std::string notice(Clock::duration age);
  std::function<void(const std::string& line)> tell() const;

  std::shared_ptr<World> world_;
  std::string name_;
  std::vector<int> members_;
  uint64_t key_;
  GroupOptions options_;
  Lane lane_;
  std::shared_ptr<CallTrack> track_;
  int64_t sequence_ = 0;                   // of calls of the whole group
  std::map<Pair, int64_t> pairs_{};        // of sends and receives
  std::map<uint64_t, uint64_t> groups_{};  // subgroups made so far with one name and members
  std::mutex running_mutex_;
  std::optional<Running> running_{};
  std::optional<DeviceSide> device_{};
  bool has_windows_ = true;           // as far as is known
  CallQueue queue_{world_->meter()};  // last: its thread uses what stands above
};

}  // namespace reprise::distributed
