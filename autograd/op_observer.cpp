// The chain of a thread's observers.
#include "reprise/autograd/op_observer.h"

#include <utility>

namespace reprise::autograd {
namespace {
thread_local OpObserver* innermost = nullptr;
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

HideOpObservers::HideOpObservers() : hidden_(std::exchange(innermost, nullptr)) {}
HideOpObservers::~HideOpObservers() { innermost = hidden_; }

}  // namespace reprise::autograd
