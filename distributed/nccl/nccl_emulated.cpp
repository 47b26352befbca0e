// The double of NCCL: communicators, groups of sends and receives, and collectives, on the emulator's streams, and what goes wrong with them.
//
// It is unkind where NCCL promises nothing:
// - a call is in progress for some questions after it, also where nothing is to be waited for;
// - a message is copied into its place once all messages of the group have come, and not before; a send is done once its
//   receiver has the message;
// - messages of unequal size wait for ever, until the communicator is aborted; so do unequal collectives, and one that meets a message;
// - a sum adds ranks in an order that is another one for each few elements and for each call (nccl_emulated_collective.h);
// - what is received into has no useful content after an abort.
#include "reprise/distributed/nccl/nccl_emulated.h"

#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <vector>

#include "reprise/core/cuda/emulated_memory.h"
#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/core/error.h"
#include "reprise/distributed/nccl/nccl_emulated_collective.h"
#include "reprise/distributed/nccl/nccl_emulated_mailbox.h"
#include "reprise/distributed/nccl/nccl_emulated_misuse.h"
#include "reprise/distributed/nccl/nccl_emulated_window.h"
#include "reprise/distributed/nccl/nccl_library.h"

/// NCCL's handle points to one.
struct ncclComm {
  int rank = 0, ranks = 1, device = 0;
  std::shared_ptr<reprise::distributed::emulated::Mailbox> mailbox;
  std::unique_ptr<reprise::distributed::emulated::Windows> windows;
  int questions_left = 0;    // that are answered by "in progress"
  uint64_t collectives = 0;  // so far
  bool is_joined = false, is_finalized = false;
  std::string last_error;
};

namespace reprise::distributed {
namespace emulated {
namespace {

constexpr int questions_in_progress = 3;

struct Message {
  bool is_sent = false;
  void* data = nullptr;
  size_t bytes = 0;
  int peer = 0;
};

// Of this thread, between ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  ncclComm* communicator = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Message> messages;
};
thread_local Group group;

struct Process {
  std::mutex mutex;
  std::set<ncclComm*> live;
  std::optional<NcclFault> fault;
  std::string failed;
  std::map<int, int> calls;                  // by device
  std::map<int, bool> is_last_a_question{};  // by device
  NcclWindows windows = NcclWindows::made;
  int version = NCCL_VERSION_CODE;
  ~Process() {
    if (!live.empty()) std::fprintf(stderr, "emulator: %zu communicators of NCCL leaked\n", live.size());
  }
};

Process& process() {
  static Process one;
  return one;
}

// Counts a call; the result that it is to fail with, else success.
ncclResult_t fault_of(const char* function, bool is_question = false) {
  const int device = cuda::emulated::selected_device();
  std::lock_guard lock(process().mutex);
  bool& was_question = process().is_last_a_question[device];
  if (std::exchange(was_question, is_question) && is_question) return ncclSuccess;
  const int call = ++process().calls[device];
  const auto& fault = process().fault;
  if (!fault || fault->device != device || fault->call != call) return ncclSuccess;
  process().failed = function;
  return ncclResult_t(fault->result);
}

ncclResult_t refuse(ncclComm* communicator, ncclResult_t result, const std::string& words) {
  communicator->last_error = words;
  return result;
}

bool is_live(ncclComm* communicator) {
  std::lock_guard lock(process().mutex);
  return process().live.contains(communicator);
}

bool is_joined(ncclComm& c) {
  if (!c.is_joined) c.is_joined = c.mailbox->has_all(c.ranks);
  return c.is_joined;
}

ncclResult_t get_version(int* version) {
  std::lock_guard lock(process().mutex);
  *version = process().version;
  return ncclSuccess;
}

const char* error_string(ncclResult_t result) {
  constexpr const char* words[] = {"no error",
                                   "unhandled cuda error",
                                   "unhandled system error",
                                   "internal error",
                                   "invalid argument",
                                   "invalid usage",
                                   "remote process exited or there was a network error",
                                   "in progress"};
  return result >= 0 && result < ncclNumResults ? words[result] : "unknown result code";
}

const char* last_error(ncclComm_t communicator) {
  return is_live(communicator) ? communicator->last_error.c_str() : "";
}

ncclResult_t get_unique_id(ncclUniqueId* id) {
  if (const ncclResult_t fault = fault_of("ncclGetUniqueId")) return fault;
  std::random_device random;
  std::snprintf(id->internal, sizeof(id->internal), "%d-%08x%08x%08x", int(getpid()), random(), random(),
                random());
  return ncclSuccess;
}

ncclResult_t init(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  const ncclResult_t fault = fault_of("ncclCommInitRankConfig");
  if (fault && fault != ncclInProgress) return fault;
  if (!config || config->magic != 0xcafebeef || config->blocking != 0 || rank < 0 || rank >= ranks)
    return ncclInvalidArgument;
  auto made = std::make_unique<ncclComm>();
  made->rank = rank;
  made->ranks = ranks;
  made->device = cuda::emulated::selected_device();
  made->questions_left = questions_in_progress;
  made->mailbox = std::make_shared<Mailbox>(id.internal, rank);
  made->windows = std::make_unique<Windows>(made->mailbox, rank, ranks);
  std::lock_guard lock(process().mutex);
  process().live.insert(made.get());
  *communicator = made.release();
  return ncclInProgress;
}

ncclResult_t get_async_error(ncclComm_t communicator, ncclResult_t* state) {
  if (!is_live(communicator)) return ncclInvalidArgument;
  *state = ncclInProgress;
  if (communicator->questions_left > 0 && communicator->questions_left--) return ncclSuccess;
  if (!is_joined(*communicator) || !communicator->windows->is_settled()) return ncclSuccess;
  *state = fault_of("ncclCommGetAsyncError", true);
  return ncclSuccess;
}

ncclResult_t finalize(ncclComm_t communicator) {
  if (const ncclResult_t fault = fault_of("ncclCommFinalize"); fault && fault != ncclInProgress) return fault;
  if (!is_live(communicator) || communicator->is_finalized) return ncclInvalidUsage;
  communicator->is_finalized = true;
  communicator->questions_left = questions_in_progress;
  return ncclInProgress;
}

void erase(ncclComm_t communicator) {
  {
    std::lock_guard lock(process().mutex);
    process().live.erase(communicator);
  }
  delete communicator;
}

ncclResult_t destroy(ncclComm_t communicator) {
  if (const ncclResult_t fault = fault_of("ncclCommDestroy")) return fault;
  if (!is_live(communicator) || !communicator->is_finalized || communicator->questions_left > 0)
    return ncclInvalidUsage;
  if (const size_t left = communicator->windows->count())
    report_misuse(detail::join("ncclCommDestroy: ", left, " windows are left"));
  communicator->mailbox->leave();
  erase(communicator);
  return ncclSuccess;
}

ncclResult_t abort(ncclComm_t communicator) {
  const ncclResult_t fault = fault_of("ncclCommAbort");
  if (!is_live(communicator) || group.depth > 0) return ncclInvalidUsage;
  communicator->mailbox->abort();
  erase(communicator);
  return fault;
}

ncclResult_t group_start() {
  if (const ncclResult_t fault = fault_of("ncclGroupStart"); fault && fault != ncclInProgress) return fault;
  if (group.depth++ == 0) group.messages.clear();
  return ncclSuccess;
}

ncclResult_t check_state(ncclComm& c) {
  if (c.questions_left > 0 || !c.is_joined || c.is_finalized || !c.windows->is_settled())
    return refuse(&c, ncclInvalidUsage, "a call before the one before is done");
  return ncclSuccess;
}

// What is wrong with a call on this memory and stream.
ncclResult_t check_call(ncclComm_t communicator, cudaStream_t stream, const void* data, size_t bytes) {
  if (!is_live(communicator)) return ncclInvalidArgument;
  ncclComm& c = *communicator;
  if (const ncclResult_t wrong = check_state(c)) return wrong;
  if (cuda::emulated::device_of(stream) != c.device || cuda::emulated::selected_device() != c.device)
    return refuse(&c, ncclInvalidUsage, "another device than the communicator's");
  note_stream(stream);
  if (cuda::emulated::kind_of(data, bytes) != cuda::emulated::MemoryKind::device)
    return refuse(&c, ncclInvalidArgument, "not the memory of a device");
  if (!c.windows->place_of(data, bytes)) {
    report_misuse("a call on memory within a window and beyond it");
    return refuse(&c, ncclInvalidArgument, "memory within a window and beyond it");
  }
  return ncclSuccess;
}

ncclResult_t add(ncclComm_t communicator, cudaStream_t stream, const Message& message) {
  if (const ncclResult_t wrong = check_call(communicator, stream, message.data, message.bytes)) return wrong;
  ncclComm& c = *communicator;
  if (group.depth == 0) return refuse(&c, ncclInvalidUsage, "the double takes messages in groups alone");
  if (message.peer < 0 || message.peer >= c.ranks || message.peer == c.rank)
    return refuse(&c, ncclInvalidArgument, "a peer that is none");
  if (!group.messages.empty() && (group.communicator != communicator || group.stream != stream))
    return refuse(&c, ncclInvalidUsage, "a group over several communicators or streams");
  group.communicator = communicator;
  group.stream = stream;
  group.messages.push_back(message);
  return ncclSuccess;
}

ncclResult_t send(const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                  cudaStream_t stream) {
  if (const ncclResult_t fault = fault_of("ncclSend"); fault && fault != ncclInProgress) return fault;
  if (type != ncclUint8) return ncclInvalidArgument;
  return add(communicator, stream, {true, const_cast<void*>(data), count, peer});
}

ncclResult_t recv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                  cudaStream_t stream) {
  if (const ncclResult_t fault = fault_of("ncclRecv"); fault && fault != ncclInProgress) return fault;
  if (type != ncclUint8) return ncclInvalidArgument;
  return add(communicator, stream, {false, data, count, peer});
}

// The messages of one group, once the stream has come to them.
class Exchange {
 public:
  Exchange(std::shared_ptr<Mailbox> mailbox, std::vector<Message> messages)
      : mailbox_(std::move(mailbox)), messages_(std::move(messages)), received_(messages_.size()) {}

  bool is_ready() {
    if (mailbox_->is_aborted()) return true;
    if (!std::exchange(is_sent_, true))
      for (const Message& m : messages_)
        if (m.is_sent) sent_.push_back(mailbox_->put(m.peer, m.data, m.bytes));
    bool has_all = true;
    for (size_t i = 0; i < messages_.size(); ++i) {
      const Message& m = messages_[i];
      if (!m.is_sent && !received_[i]) received_[i] = mailbox_->take(m.peer, m.bytes);
      has_all = has_all && (m.is_sent || received_[i]);
    }
    for (const auto& letter : sent_) has_all = has_all && mailbox_->is_taken(letter);
    return has_all;
  }

  void finish() const {
    if (mailbox_->is_aborted()) return;
    for (size_t i = 0; i < messages_.size(); ++i)
      if (received_[i]) std::memcpy(messages_[i].data, received_[i]->data(), messages_[i].bytes);
  }

 private:
  std::shared_ptr<Mailbox> mailbox_;
  std::vector<Message> messages_;
  std::vector<std::optional<std::string>> received_;
  std::vector<std::string> sent_;
  bool is_sent_ = false;
};

ncclResult_t group_end() {
  if (group.depth == 0) return ncclInvalidUsage;
  --group.depth;
  const std::vector<Message> messages = std::exchange(group.messages, {});
  if (const ncclResult_t fault = fault_of("ncclGroupEnd"); fault && fault != ncclInProgress) return fault;
  if (messages.empty()) return ncclSuccess;
  group.communicator->questions_left = questions_in_progress;
  auto exchange = std::make_shared<Exchange>(group.communicator->mailbox, messages);
  cuda::emulated::enqueue_when(
      group.stream, [exchange] { return exchange->is_ready(); }, [exchange] { exchange->finish(); });
  return ncclInProgress;
}

ncclResult_t start(ncclComm_t communicator, cudaStream_t stream, Collective::Problem problem) {
  if (!is_live(communicator)) return ncclInvalidArgument;
  const bool is_gather = problem.kind == Collective::Kind::all_gather,
             is_scatter = problem.kind == Collective::Kind::scatter_sum;
  const size_t part = problem.count * size_of(problem.dtype), whole = part * size_t(communicator->ranks),
               in_bytes = is_scatter ? whole : part, out_bytes = is_gather ? whole : part;
  if (const ncclResult_t wrong = check_call(communicator, stream, problem.in, in_bytes)) return wrong;
  if (const ncclResult_t wrong = check_call(communicator, stream, problem.out, out_bytes)) return wrong;
  ncclComm& c = *communicator;
  if (group.depth > 0) return refuse(&c, ncclInvalidUsage, "the double takes no collective in a group");
  if (problem.root < 0 || problem.root >= c.ranks)
    return refuse(&c, ncclInvalidArgument, "a root that is none");
  const char *from = static_cast<const char*>(problem.in), *to = static_cast<const char*>(problem.out);
  const size_t own = size_t(c.rank) * part;
  const bool is_in_place = from + (is_scatter ? own : 0) == to + (is_gather ? own : 0);
  if (!is_in_place && from < to + out_bytes && to < from + in_bytes)
    return refuse(&c, ncclInvalidArgument, "what is given and the result overlap");
  problem.rank = c.rank;
  problem.ranks = c.ranks;
  problem.number = ++c.collectives;
  // What is a part for each rank lies elsewhere on each.
  if (!is_scatter) problem.place = *c.windows->place_of(problem.out, out_bytes);
  if (!is_gather) problem.place += ", of " + *c.windows->place_of(problem.in, in_bytes);
  c.questions_left = questions_in_progress;
  auto call = std::make_shared<Collective>(c.mailbox, problem);
  cuda::emulated::enqueue_when(
      stream, [call] { return call->is_ready(); }, [call] { call->finish(); });
  return ncclInProgress;
}

ncclResult_t all_reduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                        ncclComm_t communicator, cudaStream_t stream) {
  if (const ncclResult_t fault = fault_of("ncclAllReduce"); fault && fault != ncclInProgress) return fault;
  const std::optional<DType> dtype = dtype_of_nccl(type);
  if (!dtype || op != ncclSum) return ncclInvalidArgument;
  return start(communicator, stream,
               {.kind = Collective::Kind::sum, .dtype = *dtype, .count = count, .in = in, .out = out});
}

ncclResult_t reduce_scatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                            ncclComm_t communicator, cudaStream_t stream) {
  if (const ncclResult_t fault = fault_of("ncclReduceScatter"); fault && fault != ncclInProgress)
    return fault;
  const std::optional<DType> dtype = dtype_of_nccl(type);
  if (!dtype || op != ncclSum) return ncclInvalidArgument;
  return start(
      communicator, stream,
      {.kind = Collective::Kind::scatter_sum, .dtype = *dtype, .count = count, .in = in, .out = out});
}

ncclResult_t all_gather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t communicator,
                        cudaStream_t stream) {
  if (const ncclResult_t fault = fault_of("ncclAllGather"); fault && fault != ncclInProgress) return fault;
  if (type != ncclUint8) return ncclInvalidArgument;
  return start(
      communicator, stream,
      {.kind = Collective::Kind::all_gather, .dtype = DType::u8, .count = count, .in = in, .out = out});
}

ncclResult_t broadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                       ncclComm_t communicator, cudaStream_t stream) {
  if (const ncclResult_t fault = fault_of("ncclBroadcast"); fault && fault != ncclInProgress) return fault;
  if (type != ncclUint8) return ncclInvalidArgument;
  return start(communicator, stream,
               {.kind = Collective::Kind::broadcast,
                .dtype = DType::u8,
                .count = count,
                .root = root,
                .in = in,
                .out = out});
}

ncclResult_t mem_alloc(void** data, size_t bytes) {
  if (const ncclResult_t fault = fault_of("ncclMemAlloc")) return fault;
  *data = obtain_window_memory(cuda::emulated::selected_device(), bytes);
  return *data ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t mem_free(void* data) {
  if (const ncclResult_t fault = fault_of("ncclMemFree")) return fault;
  return free_window_memory(data) ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t window_register(ncclComm_t communicator, void* data, size_t bytes, void** window, int flags) {
  const ncclResult_t fault = fault_of("ncclCommWindowRegister");
  if (fault && fault != ncclInProgress) return fault;
  if (!is_live(communicator) || flags != symmetric_window) return ncclInvalidArgument;
  NcclWindows kind;
  {
    std::lock_guard lock(process().mutex);
    kind = process().windows;
  }
  if (kind == NcclWindows::refused)
    return refuse(communicator, ncclInvalidUsage, "no GPU reaches another one's memory");
  if (const ncclResult_t wrong = check_state(*communicator)) return wrong;
  if (const std::string wrong = communicator->windows->begin(data, bytes, window, kind); !wrong.empty())
    return refuse(communicator, ncclInvalidArgument, wrong);
  communicator->questions_left = questions_in_progress;
  return ncclInProgress;
}

ncclResult_t window_deregister(ncclComm_t communicator, void* window) {
  const ncclResult_t fault = fault_of("ncclCommWindowDeregister");
  if (fault && fault != ncclInProgress) return fault;
  if (!is_live(communicator)) {
    report_misuse("ncclCommWindowDeregister: the communicator is gone");
    return ncclInvalidArgument;
  }
  if (const ncclResult_t wrong = check_state(*communicator)) return wrong;
  if (!communicator->windows->end(window)) {
    report_misuse("ncclCommWindowDeregister: no such window");
    return refuse(communicator, ncclInvalidArgument, "no such window");
  }
  communicator->questions_left = questions_in_progress;
  return ncclInProgress;
}

Nccl& functions() {
  static Nccl all{.get_version = get_version,
                  .get_error_string = error_string,
                  .get_last_error = entered<last_error>,
                  .get_unique_id = entered<get_unique_id>,
                  .comm_init_rank_config = entered<init>,
                  .comm_get_async_error = entered<get_async_error>,
                  .comm_finalize = entered<finalize>,
                  .comm_destroy = entered<destroy>,
                  .comm_abort = entered<abort, true>,
                  .group_start = entered<group_start>,
                  .group_end = entered<group_end>,
                  .send = entered<send>,
                  .recv = entered<recv>,
                  .all_reduce = entered<all_reduce>,
                  .reduce_scatter = entered<reduce_scatter>,
                  .all_gather = entered<all_gather>,
                  .broadcast = entered<broadcast>,
                  .mem_alloc = entered<mem_alloc>,
                  .mem_free = entered<mem_free>,
                  .comm_window_register = entered<window_register>,
                  .comm_window_deregister = entered<window_deregister>};
  return all;
}

}  // namespace

void set_nccl_fault(const std::optional<NcclFault>& fault) {
  std::lock_guard lock(process().mutex);
  process().fault = fault;
  process().failed.clear();
  process().calls.clear();
  process().is_last_a_question.clear();
}

std::string failed_nccl_function() {
  std::lock_guard lock(process().mutex);
  return process().failed;
}

void set_nccl_version(std::optional<int> version) {
  std::lock_guard lock(process().mutex);
  process().version = version.value_or(NCCL_VERSION_CODE);
}

void set_nccl_windows(NcclWindows kind) {
  std::lock_guard lock(process().mutex);
  process().windows = kind;
  functions().comm_window_register = nullptr;
  functions().comm_window_deregister = nullptr;
  if (kind == NcclWindows::absent) return;
  functions().comm_window_register = entered<window_register>;
  functions().comm_window_deregister = entered<window_deregister>;
}

int live_windows() {
  std::lock_guard lock(process().mutex);
  size_t windows = 0;
  for (const ncclComm* communicator : process().live) windows += communicator->windows->count();
  return int(windows);
}

int live_communicators() {
  std::lock_guard lock(process().mutex);
  return int(process().live.size());
}

}  // namespace emulated

const Nccl& nccl_library() { return emulated::functions(); }

}  // namespace reprise::distributed
