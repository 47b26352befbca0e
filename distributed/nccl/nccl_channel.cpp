#include "reprise/distributed/nccl/nccl_channel.h"

#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "reprise/core/cuda/runtime.h"
#include "reprise/core/error.h"
#include "reprise/distributed/nccl/nccl_library.h"

namespace reprise::distributed {
namespace {

constexpr int least_version =
    21900;  // the first whose communicators can be asked, finalized and aborted as we do
constexpr std::chrono::microseconds between_questions{50};
constexpr std::chrono::seconds closing_time{2};  // for others to finalize

std::mutex& mutex() {
  static std::mutex one;
  return one;
}

// Variables that the user has not set. RAS listens on a port of its own; NCCL keeps to the interface that the ranks joined by.
void set_variables(const std::string& interface) {
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  setenv("NCCL_RAS_ENABLE", "0", 0);
  setenv("NCCL_SOCKET_IFNAME", ("=" + interface).c_str(), 0);  // "=": none whose name only begins so
}

const Nccl& prepared_library(const std::string& interface) {
  static std::once_flag once;
  std::call_once(once, set_variables, interface);
  const Nccl& library = nccl_library();
  int version = 0;
  library.get_version(&version);
  check(version >= least_version, "NCCL: its version is ", version, ", ranks on GPUs need ", least_version,
        " or newer");
  return library;
}

bool is_good(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return ncclFloat64;
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
    case DType::i64:
      return ncclInt64;
    case DType::i32:
      return ncclInt32;
    case DType::u8:
      return ncclUint8;
    case DType::boolean:
      break;
  }
  throw Bug("NCCL adds no such numbers");
}

}  // namespace

bool has_nccl() { return true; }

std::string new_nccl_id(const std::string& interface) {
  const Nccl& nccl = prepared_library(interface);
  std::lock_guard lock(mutex());
  ncclUniqueId id{};
  const ncclResult_t result = nccl.get_unique_id(&id);
  check(result == ncclSuccess, "NCCL: ncclGetUniqueId: ", nccl.get_error_string(result));
  return std::string(id.internal, sizeof(id.internal));
}

const cuda::LibraryMemory& nccl_memory() {
  static constexpr cuda::LibraryMemory memory{
      .obtain = [](int device, size_t bytes) -> void* {
        cuda::select_device(device);
        void* data = nullptr;
        std::lock_guard lock(mutex());
        const Nccl& nccl = nccl_library();
        const ncclResult_t result = nccl.mem_alloc(&data, bytes);
        if (result == ncclUnhandledCudaError) return nullptr;  // as where memory lacks
        check(result == ncclSuccess, "NCCL on ", Device::cuda(device),
              ": ncclMemAlloc: ", nccl.get_error_string(result));
        return data;
      },
      .give_back =
          [](int device, void* data) noexcept {
            try {
              cuda::synchronize_device(device);  // ncclMemFree waits for no work, as cudaFree does
              cuda::select_device(device);
              std::lock_guard lock(mutex());
              nccl_library().mem_free(data);
            } catch (const std::exception&) {}  // it stays the process's until its end
          }};
  return memory;
}

class NcclChannel::Communicator {
 public:
  Communicator(const Options& options, Clock::time_point deadline)
      : world_(options.world), device_(options.device), nccl_(prepared_library(options.world->interface())) {
    ncclUniqueId id{};
    check(options.id.size() == sizeof(id.internal), "NCCL: an id of ", options.id.size(), " bytes");
    std::memcpy(id.internal, options.id.data(), sizeof(id.internal));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    call("ncclCommInitRankConfig", [&] {
      return nccl_.comm_init_rank_config(&communicator_, options.ranks, id, options.rank, &config);
    });
    settle("ncclCommInitRankConfig", deadline);
  }

  ~Communicator() {
    try {
      if (communicator_ && !world_->failure() && finalize()) return;
    } catch (const std::exception&) {}  // what is left is aborted
    abort();
  }

  void exchange(const Stream& stream, std::span<const Transport::Send> sends,
                std::span<const Transport::Receive> receives, Clock::time_point deadline) {
    cudaStream_t on = static_cast<cudaStream_t>(stream.handle());
    call("ncclGroupStart", [&] { return nccl_.group_start(); });
    const char* wrong = nullptr;
    ncclResult_t result = ncclSuccess;
    auto add = [&](const char* name, auto&& begin) {
      if (wrong) return;
      std::lock_guard lock(mutex());
      result = begin();
      if (!is_good(result)) wrong = name;
    };
    for (const Transport::Send& s : sends)
      add("ncclSend", [&] { return nccl_.send(s.data, s.bytes, ncclUint8, s.to, communicator_, on); });
    for (const Transport::Receive& r : receives)
      add("ncclRecv", [&] { return nccl_.recv(r.data, r.bytes, ncclUint8, r.from, communicator_, on); });
    if (wrong) {
      std::unique_lock lock(mutex());
      nccl_.group_end();  // each begin has its end
      lock.unlock();
      throw_failure(wrong, result);
    }
    call("ncclGroupEnd", [&] { return nccl_.group_end(); });
    settle("ncclGroupEnd", deadline);
  }

  void sum(const Stream& stream, DType dtype, int64_t count, void* data, Clock::time_point deadline) {
    call("ncclAllReduce", [&] {
      return nccl_.all_reduce(data, data, size_t(count), type_of(dtype), ncclSum, communicator_,
                              static_cast<cudaStream_t>(stream.handle()));
    });
    settle("ncclAllReduce", deadline);
  }

  void scatter_sum(const Stream& stream, DType dtype, int64_t count, const void* in, void* out,
                   Clock::time_point deadline) {
    call("ncclReduceScatter", [&] {
      return nccl_.reduce_scatter(in, out, size_t(count), type_of(dtype), ncclSum, communicator_,
                                  static_cast<cudaStream_t>(stream.handle()));
    });
    settle("ncclReduceScatter", deadline);
  }

  void all_gather(const Stream& stream, const void* in, void* out, size_t bytes, Clock::time_point deadline) {
    call("ncclAllGather", [&] {
      return nccl_.all_gather(in, out, bytes, ncclUint8, communicator_,
                              static_cast<cudaStream_t>(stream.handle()));
    });
    settle("ncclAllGather", deadline);
  }

  void broadcast(const Stream& stream, void* data, size_t bytes, int root, Clock::time_point deadline) {
    call("ncclBroadcast", [&] {
      return nccl_.broadcast(data, data, bytes, ncclUint8, root, communicator_,
                             static_cast<cudaStream_t>(stream.handle()));
    });
    settle("ncclBroadcast", deadline);
  }

  bool has_windows() const { return nccl_.has_windows(); }

  bool begin_window(void* data, size_t bytes) {
    invariant(reinterpret_cast<uintptr_t>(data) % window_alignment == 0 && bytes % window_alignment == 0,
              "a window of ", bytes, " bytes at ", data);
    bool is_refused = false;
    void*& window = windows_[data];  // NCCL writes it by the end of finish_window
    call("ncclCommWindowRegister", [&] {
      const ncclResult_t result =
          nccl_.comm_window_register(communicator_, data, bytes, &window, symmetric_window);
      is_refused = result == ncclInvalidUsage;
      return is_refused ? ncclSuccess : result;
    });
    if (is_refused) windows_.erase(data);
    return !is_refused;
  }

  bool finish_window(void* data, Clock::time_point deadline) {
    settle("ncclCommWindowRegister", deadline);
    if (windows_.at(data)) return true;
    windows_.erase(data);
    return false;
  }

  void end_window(void* data, Clock::time_point deadline) {
    const auto window = windows_.extract(data);
    if (!window) return;
    call("ncclCommWindowDeregister",
         [&] { return nccl_.comm_window_deregister(communicator_, window.mapped()); });
    settle("ncclCommWindowDeregister", deadline);
  }

  void wait(const cuda::Event& done, Clock::time_point deadline) {
    while (!done.is_done()) {
      ask("a call on its stream", deadline);
      std::this_thread::sleep_for(between_questions);
    }
  }

 private:
  // One call; some are in progress when they return, as settle() finds out.
  void call(const char* name, const std::function<ncclResult_t()>& body) {
    cuda::select_device(device_.index);
    std::unique_lock lock(mutex());
    const ncclResult_t result = body();
    lock.unlock();
    if (!is_good(result)) throw_failure(name, result);
  }

  // Until the communicator has done what it was called for.
  void settle(const char* name, Clock::time_point deadline) {
    while (!ask(name, deadline)) std::this_thread::sleep_for(between_questions);
  }

  // Whether it has; throws what ended it, or `late`.
  bool ask(const char* name, Clock::time_point deadline) {
    ncclResult_t state = ncclSuccess;
    call("ncclCommGetAsyncError", [&] { return nccl_.comm_get_async_error(communicator_, &state); });
    if (!is_good(state)) throw_failure(name, state);
    if (const auto failure = world_->failure()) {
      abort();
      throw TransportError(*failure);
    }
    if (Clock::now() >= deadline) {
      abort();
      throw TransportError({FailureKind::late, world_->rank(),
                            detail::join("rank ", world_->rank(), ": NCCL on ", device_, ": ", name,
                                         " was not done in time, though all ranks had made the call")});
    }
    return state == ncclSuccess;
  }

  // A rank that died shows as an error of NCCL too, so the cause is what all ranks are told.
  [[noreturn]] void throw_failure(const char* name, ncclResult_t result) {
    std::string words;
    {
      std::lock_guard lock(mutex());
      words = nccl_.get_error_string(result);
      if (const char* more = nccl_.get_last_error(communicator_); more && *more)
        words += detail::join(" (", more, ")");
    }
    abort();
    throw TransportError(world_->explain(
        {FailureKind::transport, world_->rank(),
         detail::join("rank ", world_->rank(), ": NCCL on ", device_, ": ", name, ": ", words)}));
  }

  // Nothing of ours is in progress; others may still need this rank. A rank that leaves fails no other's calls, so what goes
  // wrong here is told to no other one. False if it is still to be aborted.
  bool finalize() {
    auto locked = [](auto&& body) {
      std::lock_guard lock(mutex());
      return body();
    };
    cuda::select_device(device_.index);
    const auto deadline = Clock::now() + closing_time;
    auto is_done = [&](ncclResult_t state) {
      while (state == ncclInProgress && Clock::now() < deadline && !world_->failure()) {
        std::this_thread::sleep_for(between_questions);
        const ncclResult_t asked = locked([&] { return nccl_.comm_get_async_error(communicator_, &state); });
        if (asked != ncclSuccess) return false;
      }
      return state == ncclSuccess;
    };
    for (const auto& [data, window] : windows_)
      if (!is_done(locked([&] { return nccl_.comm_window_deregister(communicator_, window); }))) return false;
    if (!is_done(locked([&] { return nccl_.comm_finalize(communicator_); })) ||
        locked([&] { return nccl_.comm_destroy(communicator_); }) != ncclSuccess)
      return false;
    communicator_ = nullptr;
    return true;
  }

  void abort() {
    std::lock_guard lock(mutex());
    if (communicator_) nccl_.comm_abort(std::exchange(communicator_, nullptr));
    windows_.clear();
  }

  std::shared_ptr<Transport> world_;
  Device device_;
  const Nccl& nccl_;
  ncclComm_t communicator_ = nullptr;
  std::map<void*, void*> windows_;  // NCCL's handles, by address
};

NcclChannel::NcclChannel(const Options& options, Clock::time_point deadline)
    : communicator_(std::make_unique<Communicator>(options, deadline)) {}
NcclChannel::~NcclChannel() = default;

void NcclChannel::exchange(const Stream& stream, std::span<const Transport::Send> sends,
                           std::span<const Transport::Receive> receives, Clock::time_point deadline) {
  communicator_->exchange(stream, sends, receives, deadline);
}

void NcclChannel::sum(const Stream& stream, DType dtype, int64_t count, void* data,
                      Clock::time_point deadline) {
  communicator_->sum(stream, dtype, count, data, deadline);
}

void NcclChannel::scatter_sum(const Stream& stream, DType dtype, int64_t count, const void* in, void* out,
                              Clock::time_point deadline) {
  communicator_->scatter_sum(stream, dtype, count, in, out, deadline);
}

void NcclChannel::all_gather(const Stream& stream, const void* in, void* out, size_t bytes,
                             Clock::time_point deadline) {
  communicator_->all_gather(stream, in, out, bytes, deadline);
}

void NcclChannel::broadcast(const Stream& stream, void* data, size_t bytes, int root,
                            Clock::time_point deadline) {
  communicator_->broadcast(stream, data, bytes, root, deadline);
}

bool NcclChannel::has_windows() const { return communicator_->has_windows(); }

bool NcclChannel::begin_window(void* data, size_t bytes) { return communicator_->begin_window(data, bytes); }

bool NcclChannel::finish_window(void* data, Clock::time_point deadline) {
  return communicator_->finish_window(data, deadline);
}

void NcclChannel::end_window(void* data, Clock::time_point deadline) {
  communicator_->end_window(data, deadline);
}

void NcclChannel::wait(const cuda::Event& done, Clock::time_point deadline) {
  communicator_->wait(done, deadline);
}

}  // namespace reprise::distributed
