#include "reprise/distributed/errors.h"

#include <iomanip>

namespace reprise::distributed {
namespace {

// "rank 2 was last heard 0.2 s before; its last call that is known here: all_reduce #7 of group world", as far as that is known.
std::string trace_of(const Failure& failure, const std::string& last_call) {
  TextStream text;
  if (failure.heard >= 0) {
    text << "\n  rank " << failure.rank << " was last heard " << std::fixed << std::setprecision(1)
         << failure.heard << " s before";
    if (!last_call.empty()) text << "; its last call that is known here: " << last_call;
  } else if (!last_call.empty()) {
    text << "\n  the last call of rank " << failure.rank << " that is known here: " << last_call;
  }
  return text.str();
}

std::string message_of(const Failure& failure, const DistributedError::Call& call, double seconds) {
  TextStream text;
  text << failure.message << "\n  at " << call.operation;
  if (call.sequence > 0) text << " #" << call.sequence;
  text << " of group " << call.group;
  std::string tensor = call.tensor;
  if (!call.form.empty()) tensor += (tensor.empty() ? "" : ", ") + call.form;
  if (!tensor.empty()) text << ": " << tensor;
  text << ", after " << std::fixed << std::setprecision(1) << seconds << " s";
  if (call.by >= 0) text << ", on rank " << call.by;
  if (call.step >= 0) text << ", at step " << call.step;
  text << trace_of(failure, call.theirs);
  if (!call.record.empty()) text << "\n  calls: " << call.record;
  return text.str();
}

}  // namespace

std::string_view name_of(FailureKind kind) {
  switch (kind) {
    case FailureKind::died:
      return "died";
    case FailureKind::silent:
      return "silent";
    case FailureKind::late:
      return "late";
    case FailureKind::mismatch:
      return "mismatch";
    case FailureKind::refused:
      return "refused";
    case FailureKind::left:
      return "left";
    case FailureKind::transport:
      return "transport";
  }
  throw Bug("name_of: unknown FailureKind");
}

DistributedError::DistributedError(const Failure& failure, Call call, double seconds)
    : Error(message_of(failure, call, seconds)), failure_(failure), call_(std::move(call)) {}

int DistributedError::exit_code() const {
  switch (failure_.kind) {
    case FailureKind::late:
    case FailureKind::silent:
    case FailureKind::mismatch:
      return 5;
    default:
      return 4;
  }
}

}  // namespace reprise::distributed
