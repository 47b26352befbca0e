// OpRecorder: notes the operations of a first run, following results from one to the next by the storage they
// lie in.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>

#include "reprise/autograd/recompute/replay/recording.h"

namespace reprise::recompute {

class OpRecorder {
 public:
  explicit OpRecorder(Recording& recording) : recording_(recording) {}

  /// An operation of the region is about to run.
  void begins(const autograd::OpCall& call);
  /// An operation of the region ran.
  void ran(const char* name, const TensorList& inputs, const TensorList& results, const OpPlace& place);
  /// The last operation wrote its result, `y`, into the memory of its argument, which nobody else has: a value of its own.
  void overwrote(const Tensor& y);
  /// Whether the policy wants the result kept that x is or lies in.
  bool may_keep(const Tensor& x) const;
  /// An operation ran inside another one, or inside a nested checkpoint.
  void ran_inside(const TensorList& inputs);
  /// The last operation saved `x`, in the recording's last slot.
  void saved(const Tensor& x);
  /// Something happened that no order of operations shows: a replay has to run everything.
  void give_up();

  /// Results that the policy wants to keep and that something may read, and what was saved from the inside of
  /// such operations, by slot. They are taken out at the end of the first run.
  std::map<ResultId, Tensor> take_results();
  std::map<size_t, Tensor> take_inner() { return std::exchange(inner_, {}); }

 private:
  struct Produced {
    ResultId id;
    std::weak_ptr<Storage> storage;  // its address may be another one's by now
    uint64_t version = 0;
    RelativeView view;  // of the storage
  };
  struct Place {
    const Storage* storage = nullptr;
    TensorView view;
  };

  const Produced* producer(const Tensor& x) const;
  void find_input(const Tensor& x, SlotSource& source) const;
  Decision ask(const OpRecord& op, const TensorList& results) const;
  void note_results(const TensorList& inputs, const TensorList& results);
  void note_result(size_t index, const Tensor& y);
  bool changed_an_argument(const TensorList& inputs) const;
  void note_draws();
  void hold(const Produced& produced, const Tensor& x);

  Recording& recording_;
  std::vector<Generator::State> drawn_states_;  // after the last operation
  std::vector<Place> inputs_;                   // of the last operation, as long as it saves
  std::vector<ResultId> reads_inside_;          // of the operation that runs
  std::unordered_map<const Storage*, Produced> produced_;
  std::map<ResultId, Tensor> held_;
  std::map<size_t, Tensor> inner_;
  std::vector<uint64_t> versions_;  // of the arguments of the operation that runs
  autograd::OpCost cost_{};         // of the operation that began last
  bool replaceable_ = false;        // that operation: it could be left out in a replay
};

}  // namespace reprise::recompute
