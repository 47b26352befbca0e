// The chain of a thread's filters.
#include "reprise/autograd/replay_filter.h"

#include <utility>

namespace reprise::autograd {
namespace {
thread_local const ReplayFilter* innermost_filter = nullptr;
}  // namespace

ReplayFilter::ReplayFilter() : outer_(std::exchange(innermost_filter, this)) {}
ReplayFilter::~ReplayFilter() { innermost_filter = outer_; }
bool ReplayFilter::active() { return innermost_filter != nullptr; }

bool ReplayFilter::any_used(const AutogradMeta& leaf) {
  for (const ReplayFilter* filter = innermost_filter; filter; filter = filter->outer_)
    if (filter->first_run_used(leaf)) return true;
  return false;
}

void ReplayFilter::check_write(const char* method, const Tensor& x) {
  for (const ReplayFilter* filter = innermost_filter; filter; filter = filter->outer_)
    filter->check_own_write(method, x);
}

}  // namespace reprise::autograd
