// Replay: one run of a region's body in backward. It compares what happens with the first run and fills
// slots. Operations that no wanted slot depends on do not run: their results are what a policy kept, or
// hollow.
#pragma once

#include <any>

#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/recompute/replay/region.h"

namespace reprise::recompute {

class Replay final : public autograd::OpObserver {
 public:
  Replay(Region& region, Rebuilt& rebuilt, const TensorList& inputs, Effort effort);

  /// Runs the body, until the last slot that somebody may still read if the region stops early. Error if it
  /// does not do what the first run did; HollowRead if it reads what was left out.
  void play(const TensorList& inputs);

  void op_begins(const autograd::OpCall& call) override;
  std::optional<TensorList> replacement(const char* op_name, const TensorList& inputs) override;
  bool wants_results() override;
  void op_ran(const char* op_name, const TensorList& inputs, const TensorList& outputs) override;
  void made(const autograd::OpCall& call, const Tensor& y) override;
  void will_write(const autograd::OpCall& call) override;
  void data_asked(const Tensor& x) override;
  /// The pack hook of the replay's own graph, which a backward pass inside the body may use.
  std::any keep(const Tensor& x);

 private:
  struct Stop {};  // thrown through the body when nothing is left to rebuild

  bool is_inside_op() const { return autograd::InsideOp::depth() != depth_; }
  // For a backward pass inside the first run always: what comes after it has not happened yet.
  bool stops_early() const {
    return (region_.options_.early_stop || !region_.complete_) && !region_.body_->is_noexcept();
  }
  bool compares() const { return region_.options_.determinism != Determinism::none; }
  bool is_last(size_t op) const;
  void find_needs(Effort effort);
  bool fits(const OpRecord& op, const TensorList& inputs) const;
  TensorList results_of(size_t op, const TensorList& inputs) const;
  void fill(size_t slot, const Tensor& x);
  void compare_origin(size_t slot, uint64_t origin);
  void compare_values();
  [[noreturn]] static void start_over();
  /// Through fn, or at its end if nothing may be thrown through it.
  void reject(const std::string& message);
  void check_complete();

  Region& region_;
  Rebuilt& rebuilt_;
  CountedRun counted_;
  int depth_ = autograd::InsideOp::depth();
  std::vector<bool> wanted_;  // slots to fill
  Needs needs_;
  bool leaves_out_ = false;  // operations that are not needed do not run
  bool knows_needs_ = false;
  size_t next_ = 0;     // the slot of the next saved tensor
  size_t next_op_ = 0;  // in the region's log
  size_t last_wanted_ = 0;
  bool done_ = false;
  std::exception_ptr failure_;  // in case the body catches what is thrown through it
  const char* op_name_ = "";
  uint64_t hollow_reads_ = HollowRead::count();
  Trace trace_;
  std::optional<Provenance> provenance_;
};

}  // namespace reprise::recompute
