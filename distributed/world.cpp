#include "reprise/distributed/world.h"

#include <new>
#include <utility>

namespace reprise::distributed {
namespace {

// In words: "all_reduce #1412 of group world, at step 118"; empty of no call.
std::string place_of(const DistributedError::Call& call) {
  if (call.operation.empty()) return "";
  const std::string at = call.step >= 0 ? detail::join(", at step ", call.step) : "";
  return detail::join(call.operation, " #", call.sequence, " of group ", call.group, at);
}

}  // namespace

World::World(std::shared_ptr<Transport> transport, std::chrono::milliseconds notice_after,
             WaitNotices::Tell tell)
    : transport_(std::move(transport)),
      recorder_(rank(), ranks(), [this] { return transport_ ? transport_->clock_offset() : 0; }) {
  if (transport_) notices_.emplace(notice_after, std::move(tell));
}

World::~World() {
  try {
    leave();
  } catch (const std::exception&) {}  // the others see the connection end
}

void World::note_call(const std::string& operation, int64_t sequence, const std::string& group) {
  std::lock_guard lock(mutex_);
  last_call_.operation = operation, last_call_.sequence = sequence, last_call_.group = group;
  last_call_.step = step;
}

// Several groups take the notes of one rank, by a thread each.
void World::note_call_of(int rank, int64_t number, const Note& note) {
  std::lock_guard lock(mutex_);
  ToldCall& last = told_by_[rank];
  if (number > last.number) last = {number, note};
}

// Of a rank that went without a word: who leaves says its last call itself, and calls that differ are both told.
std::string World::last_call_of(const Failure& failure) const {
  const bool says_none = failure.kind == FailureKind::died || failure.kind == FailureKind::silent ||
                         failure.kind == FailureKind::late || failure.kind == FailureKind::transport;
  std::lock_guard lock(mutex_);
  const auto last = told_by_.find(failure.rank);
  return says_none && last != told_by_.end() ? place_in(last->second.note) : "";
}

int64_t World::next_call_with(int rank) {
  std::lock_guard lock(mutex_);
  return ++calls_with_[rank];
}

bool World::has_ended() const { return failure_ || own_; }

std::optional<Failure> World::failure_of_another() const {
  std::optional<Failure> failure = transport_ ? transport_->failure() : std::nullopt;
  return failure && failure->rank != rank() ? failure : std::nullopt;
}

void World::check_alive(const std::string& operation) const {
  std::lock_guard lock(mutex_);
  if (own_) std::rethrow_exception(own_);
  if (failure_) throw *failure_;
  if (const auto own = transport_ ? transport_->own_error() : nullptr) std::rethrow_exception(own);
  check(!left_, operation, ": this rank has left its group");
}

void World::fail(const Failure& failure, DistributedError::Call call, double seconds) {
  {
    std::lock_guard lock(mutex_);
    if (has_ended()) return;
  }
  call.by = rank();
  call.step = step;
  Failure told = failure;
  try {
    // Where a rank has left, all hear what waits for it on one of them: the first that says so. Of rank 0's leaving each says what all
    // know, as there may be nobody any more who tells whose words count.
    if (told.kind == FailureKind::left && told.rank != rank() && told.rank != 0 && transport_) {
      told.message += detail::join("; rank ", rank(), " waits in ", place_of(call));
      told = transport_->explain(told);
    }
    if (transport_) transport_->fail(told);
    call.theirs = last_call_of(told);
    call.record = recorder_.write(told.message);
  } catch (const std::bad_alloc&) {}  // the cause counts, also where it cannot be told or written
  std::lock_guard lock(mutex_);
  if (has_ended()) return;
  own_ = transport_ ? transport_->own_error() : nullptr;  // which the failure tells the others of
  if (!own_) failure_.emplace(told, std::move(call), seconds);
}

// Memory may be short: this rank ends its own calls by what takes none.
void World::fail_by_own(const std::string& operation, const char* reason) {
  {
    std::lock_guard lock(mutex_);
    if (has_ended()) return;
    own_ = std::current_exception();
  }
  const auto tell = [&](const std::string& message) {
    if (transport_) transport_->fail({FailureKind::left, rank(), message});
  };
  try {
    const std::string message = detail::join("rank ", rank(), " failed in ", operation, ": ", reason);
    tell(message);
    recorder_.write(message);
    return;
  } catch (const std::bad_alloc&) {}
  try {
    tell(
        "out of memory");  // a string of its own length in place: waits end, and the others hear what they can
  } catch (const std::bad_alloc&) {}  // they see this process end
}

void World::leave() {
  std::string last;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(left_, true)) return;
    try {
      last = place_of(last_call_);
    } catch (const std::bad_alloc&) {}  // that it has left is told all the same
  }
  if (transport_) transport_->leave(last);
}

}  // namespace reprise::distributed
