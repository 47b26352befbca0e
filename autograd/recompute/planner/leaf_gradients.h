// LeafGradients: puts the gradients and hooks of the parameters that operations use aside, for a dry run.
#pragma once

#include <unordered_map>

#include "reprise/autograd/meta.h"
#include "reprise/autograd/op_observer.h"

namespace reprise::recompute {

/// Sees which leaves the operations of its thread take, puts their gradients and hooks aside at the first
/// sight, and gives them back at its end.
class LeafGradients final : public autograd::OpObserver {
 public:
  /// `as_zeros`: a leaf has a gradient of zeros meanwhile; otherwise none.
  explicit LeafGradients(bool as_zeros) : as_zeros_(as_zeros) {}
  ~LeafGradients() override;

  void op_ran(const char* op_name, const TensorList& inputs, const TensorList& outputs) override;
  /// Drops what backward has made, so that the next one finds what the first one found.
  void reset();
  int64_t zero_bytes() const { return zero_bytes_; }    ///< of all zeros
  int64_t added_bytes() const { return added_bytes_; }  ///< of those whose leaves had no gradient

 private:
  struct Aside {
    Tensor leaf, gradient;
    std::vector<autograd::Node::GradHook> hooks;
    std::vector<autograd::AutogradMeta::PostHook> post_hooks;
  };

  bool as_zeros_;
  int64_t zero_bytes_ = 0, added_bytes_ = 0;
  std::unordered_map<const autograd::AutogradMeta*, Aside> aside_;
};

}  // namespace reprise::recompute
