#include "reprise/distributed/device_side.h"

#include <algorithm>
#include <map>
#include <thread>

#include "reprise/core/cuda/runtime.h"
#include "reprise/core/listing.h"
#include "reprise/distributed/collectives.h"
#include "reprise/distributed/nccl/nccl_channel.h"

namespace reprise::distributed {
namespace {

constexpr std::chrono::seconds ending_time{2};  // for work on the stream, once its communicator is aborted
constexpr std::chrono::microseconds between_questions{50};

std::string of_different_kinds(const std::map<std::string, std::vector<int>>& kinds) {
  Listing listed;
  for (const auto& [kind, ranks] : kinds) listed.add(kind, ' ', "on ", ranks_in_words(ranks));
  return detail::join(
      "ranks have GPUs of different kinds, whose kernels may round in different ways, so that bits depend "
      "on ",
      "which rank computes what:", listed.str());
}

}  // namespace

DeviceSide::DeviceSide(Device device, std::chrono::milliseconds timeout)
    : device_(device), timeout_(timeout), stream_(device) {}

DeviceSide::~DeviceSide() = default;

void DeviceSide::join(Lane& host, const std::shared_ptr<Transport>& world, const Tell& tell) {
  if (host.size() == 1) return;
  const cuda::DeviceProperties& gpu = cuda::properties(device_.index);
  const std::string kind =
      detail::join(gpu.name, " (", gpu.major, '.', gpu.minor, ", ", gpu.multiprocessors, " multiprocessors)");
  const std::string own =
      detail::join(gpu.bus_id, '\n', kind, '\n', host.rank() == 0 ? new_nccl_id(world->interface()) : "");
  std::map<std::string, int> users;
  std::map<std::string, std::vector<int>> kinds;
  std::string id;
  for (int rank = 0; const std::string& text : collectives::gather_text(host, own)) {
    const size_t end = text.find('\n'), end_of_kind = text.find('\n', end + 1);
    const auto [user, is_new] = users.emplace(text.substr(0, end), rank);
    if (!is_new)
      throw TransportError(
          {FailureKind::refused, host.world_rank(rank),
           detail::join("ranks ", host.world_rank(user->second), " and ", host.world_rank(rank),
                        " both use GPU ", user->first, "; each rank needs one of its own")});
    kinds[text.substr(end + 1, end_of_kind - end - 1)].push_back(host.world_rank(rank));
    if (rank++ == 0) id = text.substr(end_of_kind + 1);
  }
  if (tell && host.rank() == 0 && kinds.size() > 1) tell(of_different_kinds(kinds));
  cuda::select_device(device_.index);
  channel_ = std::make_unique<NcclChannel>(NcclChannel::Options{world, device_, host.rank(), host.size(), id},
                                           Clock::now() + timeout_);
}

std::shared_ptr<const cuda::Event> DeviceSide::mark() const {
  auto event = std::make_shared<cuda::Event>(device_);
  event->record(current_stream(device_));
  return event;
}

void DeviceSide::run(const Lane& host, const cuda::Event& begin, const std::function<void(Lane&)>& body,
                     const std::function<void(std::shared_ptr<const cuda::Event>)>& arrive) {
  cuda::select_device(device_.index);
  cuda::StreamScope scope(stream_.get());
  try {
    end_windows();
    begin.make_wait(stream_.get());
    Lane lane(host, stream_.get(), channel_.get());
    body(lane);
    const auto done = mark();
    arrive(done);
    wait(*done);
  } catch (...) {
    const auto last = mark();
    const auto end = Clock::now() + ending_time;
    while (!last->is_done() && Clock::now() < end) std::this_thread::sleep_for(between_questions);
    throw;
  }
}

Tensor DeviceSide::window_memory(int64_t numel, DType dtype) const {
  if (!channel_ || !channel_->has_windows()) return {};
  cuda::LibraryMemoryScope scope(nccl_memory());
  const int64_t step = int64_t(window_alignment / size_of(dtype));
  return Tensor::empty({(numel + step - 1) / step * step}, dtype, device_);
}

// In ncclCommWindowRegister NCCL waits for all ranks, for ever where one was refused. So all hear first whether all have begun.
bool DeviceSide::make_window(Lane& host, const Tensor& memory) {
  auto ranks_without = [&](bool own) {
    std::vector<char> all(size_t(host.size()));
    const char mine = own;
    collectives::all_gather(host, &mine, all.data(), sizeof(mine));
    std::vector<int> ranks;
    for (int rank = 0; rank < host.size(); ++rank)
      if (!all[size_t(rank)]) ranks.push_back(host.world_rank(rank));
    return ranks;
  };
  void* data = memory.defined() ? memory.view().data : nullptr;
  const size_t bytes = data ? size_t(memory.numel()) * size_of(memory.dtype()) : 0;
  const std::vector<int> refused = ranks_without(data && channel_->begin_window(data, bytes));
  if (refused.size() == size_t(host.size())) return false;
  if (!refused.empty())
    throw TransportError({FailureKind::transport, refused[0],
                          detail::join(ranks_in_words(refused), ": NCCL refuses windows ",
                                       "(ncclCommWindowRegister), and gives other ranks theirs")});
  const bool is_made = channel_->finish_window(data, Clock::now() + timeout_);
  if (!ranks_without(is_made).empty()) {
    if (is_made) channel_->end_window(data, Clock::now() + timeout_);
    return false;
  }
  std::lock_guard lock(mutex_);
  windows_.push_back(memory);
  return true;
}

void DeviceSide::end_window(const Tensor& memory) {
  std::lock_guard lock(mutex_);
  const auto window =
      std::ranges::find(windows_, memory.storage(), [](const Tensor& x) { return x.storage(); });
  if (window == windows_.end()) return;
  ending_.push_back(std::move(*window));
  windows_.erase(window);
}

size_t DeviceSide::window_bytes() const {
  std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (const TensorList* memory : {&windows_, &ending_})
    for (const Tensor& x : *memory) bytes += size_t(x.numel()) * size_of(x.dtype());
  return bytes;
}

// No call of the group is in progress.
void DeviceSide::end_windows() {
  TensorList ending;
  {
    std::lock_guard lock(mutex_);
    ending.swap(ending_);
  }
  for (const Tensor& memory : ending) channel_->end_window(memory.view().data, Clock::now() + timeout_);
}

void DeviceSide::wait(const cuda::Event& done) {
  if (channel_)
    channel_->wait(done, Clock::now() + timeout_);
  else
    done.synchronize();
}

}  // namespace reprise::distributed
