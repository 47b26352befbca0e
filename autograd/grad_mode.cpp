// The thread's grad mode and inference mode.
#include "reprise/autograd/grad_mode.h"

#include <utility>

#include "reprise/core/storage.h"

namespace reprise::autograd {
namespace {
thread_local bool grad_enabled = true;
}  // namespace

bool grad_mode_enabled() { return grad_enabled; }
GradMode::GradMode(bool enabled) : previous_(grad_enabled) { grad_enabled = enabled; }
GradMode::~GradMode() { grad_enabled = previous_; }

bool inference_mode_enabled() { return reprise::detail::storages_are_for_inference; }
InferenceMode::InferenceMode()
    : previous_(std::exchange(reprise::detail::storages_are_for_inference, true)) {}
InferenceMode::~InferenceMode() { reprise::detail::storages_are_for_inference = previous_; }

}  // namespace reprise::autograd
