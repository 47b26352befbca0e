// The chain of a thread's observers.
#include "reprise/autograd/op_observer.h"

#include <utility>

namespace reprise::autograd {
namespace {
thread_local OpObserver* innermost = nullptr;
thread_local int ops_around = 0;
}  // namespace

OpObserver::OpObserver() : outer_(std::exchange(innermost, this)) {}
OpObserver::~OpObserver() { innermost = outer_; }

void OpObserver::notify(const char* op_name, const TensorList& inputs, const TensorList& outputs) {
  if (!innermost) return;
  OpObserver* first = innermost;
  HideOpObservers guard;
  for (OpObserver* observer = first; observer; observer = observer->outer_)
    observer->op_ran(op_name, inputs, outputs);
}

std::optional<TensorList> OpObserver::find_replacement(const char* op_name, const TensorList& inputs) {
  OpObserver* first = innermost;
  if (!first) return {};
  HideOpObservers guard;
  for (OpObserver* observer = first; observer; observer = observer->outer_)
    if (auto results = observer->replacement(op_name, inputs)) return results;
  return {};
}

bool OpObserver::all_want_no_results() {
  for (OpObserver* observer = innermost; observer; observer = observer->outer_)
    if (observer->wants_results()) return false;
  return innermost != nullptr;
}

InsideOp::InsideOp() { ++ops_around; }
InsideOp::~InsideOp() { --ops_around; }
int InsideOp::depth() { return ops_around; }

void OpObserver::will_write(const char*, const Tensor&) {}

void OpObserver::notify_write(const char* method, const Tensor& x) {
  for (OpObserver* observer = innermost; observer; observer = observer->outer_)
    observer->will_write(method, x);
}

void OpObserver::notify_backward() {
  for (OpObserver* observer = innermost; observer; observer = observer->outer_) observer->backward_begins();
}

HideOpObservers::HideOpObservers() : hidden_(std::exchange(innermost, nullptr)) {}
HideOpObservers::~HideOpObservers() { innermost = hidden_; }

}  // namespace reprise::autograd
