// The chain of a thread's observers.
#include "reprise/autograd/op_observer.h"

#include <utility>

namespace reprise::autograd {
namespace {

thread_local OpObserver* innermost_observer = nullptr;
thread_local int ops_around = 0, operations_around = 0;

// Hands what core sees on to the chain of the thread that it happens on.
class DataChain final : public DataObserver {
 public:
  void data_asked(const Tensor& x) override { OpObserver::notify_data(x); }
};
DataChain data_chain;

}  // namespace

OpObserver::OpObserver() : outer_(std::exchange(innermost_observer, this)), data_(&data_chain) {}
OpObserver::~OpObserver() { innermost_observer = outer_; }
bool OpObserver::any() { return innermost_observer != nullptr; }

// What an observer computes is not observed.
template <class Tell>
void OpObserver::tell_all(const Tell& tell) {
  if (!innermost_observer) return;
  OpObserver* first = innermost_observer;
  HideOpObservers guard;
  for (OpObserver* observer = first; observer; observer = observer->outer_) tell(*observer);
}

void OpObserver::notify_begin(const OpCall& call) {
  tell_all([&](OpObserver& observer) { observer.op_begins(call); });
}

void OpObserver::notify(const char* op_name, const TensorList& inputs, const TensorList& outputs) {
  tell_all([&](OpObserver& observer) { observer.op_ran(op_name, inputs, outputs); });
}

void OpObserver::notify_made(const char* factory, const Tensor& y, const Attributes& attributes) {
  tell_all([&](OpObserver& observer) { observer.made({factory, {}, attributes}, y); });
}

void OpObserver::notify_write(const OpCall& call) {
  tell_all([&](OpObserver& observer) { observer.will_write(call); });
}

void OpObserver::notify_took_place(const Tensor& before, const Tensor& now) {
  tell_all([&](OpObserver& observer) { observer.took_place(before, now); });
}

void OpObserver::notify_detached(const Tensor& x) {
  tell_all([&](OpObserver& observer) { observer.detached(x); });
}

bool OpObserver::all_let_overwrite(const Tensor& x) {
  bool all = true;
  tell_all([&](const OpObserver& observer) { all = all && observer.lets_overwrite(x); });
  return all;
}

void OpObserver::notify_data(const Tensor& x) {
  tell_all([&](OpObserver& observer) { observer.data_asked(x); });
}

void OpObserver::notify_backward() {
  tell_all([](OpObserver& observer) { observer.backward_begins(); });
}

InsideOp::InsideOp(Of what) : what_(what) {
  ++ops_around;
  if (what_ == Of::region) return;
  ++operations_around;
  no_data_.emplace(nullptr);
}
InsideOp::~InsideOp() {
  --ops_around;
  if (what_ == Of::operation) --operations_around;
}
int InsideOp::depth() { return ops_around; }
int InsideOp::operation_depth() { return operations_around; }

HideOpObservers::HideOpObservers() : hidden_(std::exchange(innermost_observer, nullptr)) {}
HideOpObservers::~HideOpObservers() { innermost_observer = hidden_; }

}  // namespace reprise::autograd
