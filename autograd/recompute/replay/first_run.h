// FirstRun: sees the operations of a region's first run, and puts slots in the place of what they save.
#pragma once

#include "reprise/autograd/engine.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/recompute/replay/region.h"

namespace reprise::recompute {

class FirstRun final : public autograd::OpObserver {
 public:
  FirstRun(Region& region, const TensorList& inputs);

  void op_begins(const autograd::OpCall& call) override;
  std::optional<TensorList> replacement(const char*, const TensorList&) override;
  void op_ran(const char* op_name, const TensorList& inputs, const TensorList& outputs) override;
  void made(const autograd::OpCall& call, const Tensor& y) override;
  void will_write(const autograd::OpCall& call) override;
  void data_asked(const Tensor& x) override;
  void backward_begins() override { region_.ops_.give_up(); }  // it reads the graph around any result
  /// The pack hook.
  std::shared_ptr<Slot> keep(const Tensor& x);
  void finish();

 private:
  bool is_inside_op() const { return autograd::InsideOp::depth() != depth_; }
  OpPlace place_of_op() const;

  Region& region_;
  CountedRun counted_;
  int depth_ = autograd::InsideOp::depth(), passes_ = autograd::backward_depth();
  const char* op_name_ = "";
};

}  // namespace reprise::recompute
