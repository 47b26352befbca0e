// Replay: one run of a region's body in backward. It compares what happens with the first run and fills
// slots.
#pragma once

#include <any>

#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/recompute/region.h"

namespace reprise::recompute {

class Replay final : public autograd::OpObserver {
 public:
  Replay(Region& region, Rebuilt& rebuilt, const TensorList& inputs);

  /// Runs the body, until the last slot that somebody may still read if the region stops early. Error if it
  /// does not do what the first run did.
  void play(const TensorList& inputs);

  void op_ran(const char* op_name, const TensorList& inputs, const TensorList& outputs) override;
  /// The pack hook of the replay's own graph, which a backward pass inside the body may use.
  std::any keep(const Tensor& x);

 private:
  struct Stop {};  // thrown through the body when nothing is left to rebuild

  [[noreturn]] void reject(const std::string& message);
  void check_complete();

  Region& region_;
  Rebuilt& rebuilt_;
  CountedRun counted_;
  size_t next_ = 0;  // the slot of the next saved tensor
  size_t last_live_ = 0;
  bool done_ = false;
  std::exception_ptr failure_;  // in case the body catches what is thrown through it
  const char* op_name_ = "";
  Trace trace_;
};

}  // namespace reprise::recompute
