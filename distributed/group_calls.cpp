#include "reprise/distributed/group_calls.h"

#include <iomanip>
#include <new>

#include "reprise/core/bytes.h"
#include "reprise/core/hash.h"
#include "reprise/core/no_compute.h"

namespace reprise::distributed {
namespace {

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// "f32, 24.7 MiB"; nothing of a call without a tensor.
std::string form_of(const Call& call) {
  if (!call.dtype) return "";
  const double bytes = double(numel_of(call.shape)) * double(size_of(*call.dtype));
  return detail::join(*call.dtype, ", ", format_bytes(bytes));
}

}  // namespace

GroupCalls::GroupCalls(std::shared_ptr<World> world, std::string name, std::vector<int> members, uint64_t key,
                       const GroupOptions& options)
    : world_(std::move(world)),
      name_(std::move(name)),
      members_(std::move(members)),
      key_(key),
      options_(options),
      lane_(world_, members_, key_, options.timeout),
      track_(world_->recorder().add_group()) {
  if (WaitNotices* notices = world_->notices())
    notices->add(this, [this](Clock::duration age) { return notice(age); });
  if (options_.device.is_cpu()) return;
  device_.emplace(options_.device, options_.timeout);
  // Ranks may make groups in different orders: none waits here.
  queue_.push([this](const CallQueue::Arrival& arrive) {
    arrive({});  // it is no call: a group may go without one
    run({.operation = "join", .words = "", .label = detail::join(options_.device), .group = name_}, [this] {
      // Once per job: a subgroup has GPUs of the world's.
      device_->join(lane_, world_->transport(), key_ == 0 ? tell() : DeviceSide::Tell());
    });
  });
}

GroupCalls::~GroupCalls() {
  if (WaitNotices* notices = world_->notices()) notices->remove(this);
}

bool GroupCalls::computes_nothing(const std::string& operation) const {
  if (!NoCompute::is_on()) return false;
  const auto& transport = world_->transport();
  check(!transport || transport->is_imagined(), operation, ": group ", name_,
        " has other ranks, which would wait for one within a NoCompute; imagined_group has none");
  return true;
}

std::function<void(const std::string& line)> GroupCalls::tell() const {
  return options_.tell ? options_.tell : tell_standard_error;
}

Work GroupCalls::submit(Call call, const TensorList& results, const TensorList& inputs, Body body) {
  computes_nothing(call.operation);  // else it counts
  call.group = name_, call.key = key_, call.sequence = ++sequence_;
  return make(call, results, inputs, std::move(body), [&] { return lane_.announce(call); });
}

Work GroupCalls::submit_and_keep(Call call, const Tensor& result, TensorList inputs, size_t room,
                                 BodyInRoom body) {
  // Of the stream that the call comes behind. Without memory for it, the other ranks are told.
  auto take_room = [&] {
    MemoryScope scope(MemoryCategory::workspace);
    inputs.push_back(Tensor::empty({int64_t(room)}, DType::u8, result.device()));
  };
  computes_nothing(call.operation) ? take_room() : run(call, take_room);
  Work work =
      submit(std::move(call), {result}, inputs,
             [body = std::move(body), in = inputs.back()](Lane& lane) { body(lane, in.view().data); });
  work.keep(std::move(inputs));
  return work;
}

Work GroupCalls::submit_to(int other, Call call, const TensorList& results, const TensorList& inputs,
                           Body body) {
  computes_nothing(call.operation);
  call.group = name_, call.key = key_, call.sequence = ++pairs_[{call.operation, other}];
  return make(call, results, inputs, std::move(body), [&] { return lane_.announce_to(other, call); });
}

Tensor GroupCalls::make_window(int64_t numel, DType dtype, const std::string& label) {
  if (!device_ || lane_.size() == 1 || !has_windows_) return {};
  wait_until_idle();  // it has joined, or failed
  world_->check_alive("make_window");
  const Tensor memory = device_->window_memory(numel, dtype);
  auto is_made = std::make_shared<bool>(false);
  Call call{.operation = "make_window", .words = "", .label = label, .dtype = dtype, .shape = {numel}};
  call.on_cuda = true;
  const TensorList kept = memory.defined() ? TensorList{memory} : TensorList{};
  submit(std::move(call), {}, kept, [=, this](Lane&) {
    *is_made = device_->make_window(lane_, memory);
  }).synchronize();
  if (*is_made) return memory;
  has_windows_ = false;  // on all ranks
  if (memory.defined() && lane_.rank() == 0)
    tell()(detail::join("rank ", world_->rank(), ": NCCL makes no windows (ncclCommWindowRegister) in group ",
                        name_, label.empty() ? "" : detail::join(" (", label, ")"),
                        ": from here on there is ordinary memory"));
  return {};
}

void GroupCalls::end_window(const Tensor& window) {
  if (device_) device_->end_window(window);
}

Work GroupCalls::make(const Call& call, const TensorList& results, const TensorList& inputs, Body body,
                      const std::function<std::vector<Lane::Place>()>& announce) {
  if (computes_nothing(call.operation)) {  // on this thread: what it takes of memory, it takes
    body(lane_);
    return {};
  }
  Work work;
  run(call, [&] {
    const int64_t number = track_->issue(call);
    world_->note_call(call.operation, call.sequence, name_);
    auto compared = [this, call, results, inputs, places = announce(), body = std::move(body)](Lane& lane) {
      lane_.compare(call, places);
      body(lane);
    };
    for (const Tensor& x : results) x.storage()->bump_version();
    if (!call.on_cuda)
      work = queue_.push([this, call, number, compared](const auto&) {
        run(call, [&] { play(call, number, [&] { compared(lane_); }); });
      });
    else
      work = queue_.push(
          [this, call, number, compared, begin = device_->mark()](const CallQueue::Arrival& arrive) {
            run(call, [&] { play(call, number, [&] { device_->run(lane_, *begin, compared, arrive); }); });
          });
  });
  return work;
}

// On the queue's thread.
void GroupCalls::play(const Call& call, int64_t number, const std::function<void()>& body) {
  {
    std::lock_guard lock(running_mutex_);
    running_ = Running{call, Clock::now()};
  }
  struct End {
    GroupCalls& calls;
    ~End() {
      std::lock_guard lock(calls.running_mutex_);
      calls.running_.reset();
    }
  } end{*this};
  BusyTime::Scope in_progress(world_->meter()->calls);
  track_->begin(number);
  body();
  track_->end(number);
}

// What a part of this call throws ends the world: of a transport as the error of this call, and else as it is, for this rank.
void GroupCalls::run(const Call& call, const std::function<void()>& body) {
  const auto begin = Clock::now();
  auto fail = [&](const Failure& failure) {
    world_->fail(failure,
                 {.operation = call.operation,
                  .sequence = call.sequence,
                  .group = name_,
                  .tensor = call.label,
                  .form = form_of(call)},
                 seconds_since(begin));
  };
  world_->check_alive(call.operation);
  try {  // also of what is thrown as another error is handled
    try {
      return body();
    } catch (const TransportError& error) { fail(error.failure()); } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      if (const auto first = failure_of_another())
        fail(*first);  // which this follows from
      else
        world_->fail_by_own(call.operation, error.what());
    }
  } catch (const std::bad_alloc&) { world_->fail_by_own(call.operation, "out of memory"); }
  world_->check_alive(call.operation);
}

// Nothing where there is no memory for it: then what this rank has met itself is the cause that is known.
std::optional<Failure> GroupCalls::failure_of_another() const {
  try {
    return world_->failure_of_another();
  } catch (const std::bad_alloc&) { return {}; }
}

// On the thread of the notices.
std::string GroupCalls::notice(Clock::duration age) {
  std::lock_guard lock(running_mutex_);
  if (!running_ || running_->is_told || Clock::now() - running_->since < age) return "";
  running_->is_told = true;
  const Call& call = running_->call;
  TextStream text;
  text << "rank " << world_->rank() << " has waited for " << std::fixed << std::setprecision(1)
       << seconds_since(running_->since) << " s in " << call.operation << " #" << call.sequence
       << " of group " << name_;
  if (!call.label.empty()) text << " (" << call.label << ')';
  if (const std::optional<int> awaited = lane_.awaited())
    text << ": rank " << *awaited << " has not made the call";
  else
    text << ": its neighbours have made the call; what other ranks send has not come";
  return text.str();
}

void GroupCalls::abort(const std::string& reason) {
  const int rank = world_->rank();
  world_->fail({FailureKind::left, rank, detail::join("rank ", rank, " aborted: ", reason)},
               {"abort", sequence_, name_, ""}, 0);
}

std::unique_ptr<GroupCalls> GroupCalls::subgroup(const std::vector<int>& ranks, const std::string& called) {
  world_->check_alive("subgroup");
  std::vector<int> members;
  uint64_t key = mix(key_, ranks.size());
  for (char c : called) key = mix(key, uint64_t(uint8_t(c)));
  for (int r : ranks) {
    members.push_back(members_[size_t(r)]);
    key = mix(key, uint64_t(r));
  }
  key = mix(key, ++groups_[key]);
  return std::make_unique<GroupCalls>(world_, called, std::move(members), key, options_);
}

}  // namespace reprise::distributed
