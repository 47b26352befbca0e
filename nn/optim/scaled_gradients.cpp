#include "reprise/nn/optim/scaled_gradients.h"

#include <map>
#include <mutex>

#include "reprise/core/error.h"
#include "reprise/core/tensor_set.h"

namespace reprise::optim::detail {

struct ScaledThread {
  std::mutex mutex;
  // By scope: the parameters whose gradients were divided again.
  std::map<const ScaledScope*, TensorSet> unscaled;
};

namespace {

const std::shared_ptr<ScaledThread>& this_thread() {
  thread_local const auto thread = std::make_shared<ScaledThread>();
  return thread;
}

}  // namespace

void ScaledScope::begin() {
  if (thread_) return;
  thread_ = this_thread();
  std::lock_guard lock(thread_->mutex);
  thread_->unscaled[this];
}

void ScaledScope::add_unscaled(const TensorList& parameters) {
  std::lock_guard lock(thread_->mutex);
  for (const Tensor& parameter : parameters) thread_->unscaled[this].insert(parameter);
}

void ScaledScope::end() {
  if (!thread_) return;
  {
    std::lock_guard lock(thread_->mutex);
    thread_->unscaled.erase(this);
  }
  thread_.reset();
}

void check_unscaled(const char* op, const TensorList& parameters) {
  ScaledThread& thread = *this_thread();
  std::lock_guard lock(thread.mutex);
  for (const auto& [scope, unscaled] : thread.unscaled)
    for (size_t i = 0; i < parameters.size(); ++i)
      check(unscaled.contains(parameters[i]), op, ": the gradient of parameter ", i,
            " is that of a scaled loss; let GradScaler::step clip it, or unscale its optimizer first");
}

}  // namespace reprise::optim::detail
