// FirstRun: sees the operations of a non-reentrant region's first run, and puts slots in the place of what
// they save.
#pragma once

#include <unordered_set>

#include "reprise/autograd/recompute/replay/op_recorder.h"
#include "reprise/autograd/recompute/replay/run_observer.h"

namespace reprise::recompute {

class FirstRun final : public FirstRunObserver {
 public:
  FirstRun(Recording& recording, OpRecorder& ops, const TensorList& inputs)
      : FirstRunObserver(recording, inputs), ops_(ops) {}

  void op_begins(const autograd::OpCall& call) override;
  void op_ran(const char* op_name, const TensorList& inputs, const TensorList& outputs) override;
  void took_place(const Tensor& before, const Tensor& now) override;
  // Not what a policy wants kept, nor what a run that keeps what is saved would have to copy: its bytes count. Nor what fn wrote
  // outside of graphs: if the result is kept, a replay that changes it is no such write.
  bool lets_overwrite(const Tensor& x) const override {
    return !saved_.contains(x.storage()->id()) && !ops_.may_keep(x) && !recording_.captures.wrote(x);
  }
  void backward_begins() override { ops_.give_up(); }  // it reads the graph around any result
  /// The pack hook.
  std::shared_ptr<Slot> save(const Tensor& x, std::shared_ptr<Region> region);

 private:
  bool is_inside_op() const { return autograd::InsideOp::depth() != depth_; }
  OpPlace place_of_op() const;

  OpRecorder& ops_;
  int depth_ = autograd::InsideOp::depth();
  const char* op_name_ = "";
  std::unordered_set<uint64_t> saved_;  // storages
};

}  // namespace reprise::recompute
