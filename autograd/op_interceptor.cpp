// The chain of a thread's interceptors.
#include "reprise/autograd/op_interceptor.h"

#include <utility>

#include "reprise/autograd/op_observer.h"

namespace reprise::autograd {
namespace {
thread_local OpInterceptor* innermost_interceptor = nullptr;
}  // namespace

OpInterceptor::OpInterceptor() : outer_(std::exchange(innermost_interceptor, this)) {}
OpInterceptor::~OpInterceptor() { innermost_interceptor = outer_; }

std::optional<TensorList> OpInterceptor::find_replacement(const char* op_name, const TensorList& inputs) {
  OpInterceptor* first = innermost_interceptor;
  if (!first) return {};
  HideOpObservers guard;
  for (OpInterceptor* interceptor = first; interceptor; interceptor = interceptor->outer_)
    if (auto results = interceptor->replacement(op_name, inputs)) return results;
  return {};
}

bool OpInterceptor::all_want_no_results() {
  for (OpInterceptor* interceptor = innermost_interceptor; interceptor; interceptor = interceptor->outer_)
    if (interceptor->wants_results()) return false;
  return innermost_interceptor != nullptr;
}

HideOpInterceptors::HideOpInterceptors() : hidden_(std::exchange(innermost_interceptor, nullptr)) {}
HideOpInterceptors::~HideOpInterceptors() { innermost_interceptor = hidden_; }

}  // namespace reprise::autograd
