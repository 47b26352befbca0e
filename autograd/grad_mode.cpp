// The thread's grad mode and inference mode.
#include "reprise/autograd/grad_mode.h"

namespace reprise::autograd {
namespace {
thread_local bool grad_enabled = true;
thread_local bool inference_enabled = false;
}  // namespace

bool grad_mode_enabled() { return grad_enabled; }
GradMode::GradMode(bool enabled) : previous_(grad_enabled) { grad_enabled = enabled; }
GradMode::~GradMode() { grad_enabled = previous_; }

bool inference_mode_enabled() { return inference_enabled; }
InferenceMode::InferenceMode() : previous_(inference_enabled) { inference_enabled = true; }
InferenceMode::~InferenceMode() { inference_enabled = previous_; }

}  // namespace reprise::autograd
