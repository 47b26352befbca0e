// What observes a region's runs, in both modes: what is made of what, and what a first run reaches by itself.
#pragma once

#include "reprise/autograd/engine.h"
#include "reprise/autograd/recompute/replay/recording.h"

namespace reprise::recompute {

/// Follows what a run makes of what.
class RunObserver : public autograd::OpObserver {
 public:
  explicit RunObserver(std::optional<Provenance>& provenance) : provenance_(provenance) {}
  /// Of a replay of what `first` has recorded.
  RunObserver(std::optional<Provenance>& provenance, const Recording& first)
      : provenance_(provenance), changed_inputs_(first.captures.changed_inputs()) {}
  void op_begins(const autograd::OpCall& call) override {
    check_reads(call.inputs);
    if (provenance_) provenance_->op_begins(call);
  }
  void op_ran(const char*, const TensorList&, const TensorList& outputs) override {
    if (provenance_) provenance_->op_ran(outputs);
  }
  void made(const autograd::OpCall& call, const Tensor& y) override {
    if (provenance_) provenance_->made(call, y);
  }
  void will_write(const autograd::OpCall& call) override {
    check_reads(call.inputs);
    if (provenance_) provenance_->will_write(call);
  }
  void detached(const Tensor& x) override { check_read(x); }
  void took_place(const Tensor& before, const Tensor& now) override {
    if (provenance_) provenance_->took_place(before, now);
  }
  void data_asked(const Tensor& x) override {
    check_read(x);
    if (provenance_) provenance_->data_asked(x, is_in_backward());
  }

 protected:
  /// Throws an Error, or has it thrown when fn is done.
  virtual void reject(const std::string& message) {
    fail("checkpoint: fn did something else when it was played again: ", message);
  }

  /// Whether fn runs a backward pass of its own.
  bool is_in_backward() const { return autograd::backward_depth() != passes_; }

  std::optional<Provenance>& provenance_;

 private:
  void check_reads(const TensorList& read) {
    for (const Tensor& x : read) check_read(x);
  }
  void check_read(const Tensor& x) {
    for (const Tensor& changed : changed_inputs_)
      if (x.is_same(changed))
        reject(reprise::detail::join(
            "it read by itself a tensor of shape ", x.shape(),
            " that the first run was given, and which was changed in place since: read the argument"));
  }

  TensorList changed_inputs_;  // of a replay
  int passes_ = autograd::backward_depth();
};

/// Notes what a first run captures and saves.
class FirstRunObserver : public RunObserver {
 public:
  FirstRunObserver(Recording& recording, const TensorList& inputs)
      : RunObserver(recording.provenance),
        recording_(recording),
        counted_(recording.count(CallStats::Run::first, inputs)) {
    recording.provenance = recording.new_provenance(inputs);
  }
  void op_ran(const char* op_name, const TensorList& inputs, const TensorList& outputs) override {
    RunObserver::op_ran(op_name, inputs, outputs);
    recording_.captures.note(inputs, op_name);
    counted_.saw_operation();
  }
  void will_write(const autograd::OpCall& call) override {
    RunObserver::will_write(call);
    recording_.captures.note_write(call);
  }
  void detached(const Tensor& x) override { recording_.captures.note_detached(x); }
  // A backward pass in between writes gradients, which is not what fn reads.
  void data_asked(const Tensor& x) override {
    RunObserver::data_asked(x);
    if (!is_in_backward()) recording_.captures.note_read(x);
  }
  void finish() {
    counted_.finish();
    recording_.complete = true;
  }

 protected:
  Recording& recording_;
  RunStats counted_;
};

}  // namespace reprise::recompute
