// Whether operations on this thread are recorded: scopes that switch it.
#pragma once

namespace reprise::autograd {

/// Whether operations on this thread are recorded; at first they are.
bool grad_mode_enabled();

/// Switches recording on or off while it lives.
class GradMode {
 public:
  explicit GradMode(bool enabled);  ///< on this thread; the innermost scope counts
  ~GradMode();
  GradMode(const GradMode&) = delete;

 private:
  bool previous_;
};

/// Whether an InferenceMode lives on this thread.
bool inference_mode_enabled();

/// Like NoGrad, and a promise that no graph will ever use what is made inside, by operations or otherwise, or
/// a view of it: saving it for backward later is an Error, so evaluation code cannot leak into training
/// unseen. Views of tensors from outside, and copies made outside, are ordinary tensors.
class InferenceMode {
 public:
  InferenceMode();
  ~InferenceMode();
  InferenceMode(const InferenceMode&) = delete;

 private:
  GradMode grad_mode_{false};
  bool previous_;
};

}  // namespace reprise::autograd

namespace reprise {

/// Operations are not recorded while it lives: `NoGrad guard;`
struct NoGrad : autograd::GradMode {
  NoGrad() : GradMode(false) {}
};
/// Operations are recorded again while it lives, inside a NoGrad.
struct EnableGrad : autograd::GradMode {
  EnableGrad() : GradMode(true) {}
};
using autograd::InferenceMode;

}  // namespace reprise
