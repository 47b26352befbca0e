// OpLog: what a region's first run did, operation by operation: which results each one read, what was saved
// from where, what was drawn. A replay finds from it what need not run.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reprise/autograd/draw.h"
#include "reprise/autograd/recompute/policy.h"
#include "reprise/core/tensor.h"

namespace reprise::recompute {

/// A result of one of the region's operations.
struct ResultId {
  size_t op = 0, index = 0;
  friend auto operator<=>(const ResultId&, const ResultId&) = default;
};

/// Where else an operation is noted.
struct OpPlace {
  size_t trace_end = 0;           ///< of its lines in the region's trace
  uint64_t call = 0, origin = 0;  ///< its provenance, without and with what it drew
};

struct OpRecord {
  const char* name = "";
  std::vector<Shape> inputs{};          ///< rank 0 for an absent one
  std::vector<TensorView> results{};    ///< their layouts, without data
  std::vector<ResultId> reads{};        ///< results of the region's earlier operations
  size_t first_slot = 0, end_slot = 0;  ///< of the tensors that it saved
  Decision decision = Decision::recompute;
  bool is_view = false;                           ///< its results lie in the memory of its inputs
  bool replaceable = false;                       ///< it asked before it ran, and results are all it gave
  std::vector<autograd::DrawnGenerator> drawn{};  ///< the generators it drew from, as it left them
  OpPlace place{};
};

/// A layout somewhere in the memory of another tensor, the base. What a replay, a store or hooks put in the
/// place of the base has its values, but maybe other strides, and no bytes around it.
struct RelativeView {
  TensorView layout, base;  ///< without data
  ptrdiff_t offset = 0;     ///< bytes from the base's first element

  RelativeView() = default;
  RelativeView(const TensorView& view, const TensorView& of_base);
  /// Whether it is the base itself.
  bool is_whole() const;
  /// Whether it needs no bytes but the base's.
  bool is_inside() const;
  /// Whether `of` finds the same values in `other`.
  bool fits(const Tensor& other) const;
  Tensor of(const Tensor& other) const;
};

/// Where the tensor in a slot came from; if it is neither of these, from the inside of `op`.
struct SlotSource {
  size_t op = 0;                     ///< that saved it
  std::optional<ResultId> result{};  ///< of an operation of the region, of itself or an earlier one
  RelativeView of_result{};          ///< the tensor, there
  std::optional<size_t> input{};     ///< an argument of `op` that has all its bytes
  RelativeView of_input{};           ///< the tensor, there
};

class OpLog {
 public:
  /// `drawn`: the region's generators, in order of their first draw; `policy` outlives the log.
  OpLog(const Policy& policy, const std::vector<autograd::DrawnGenerator>& drawn)
      : policy_(policy), drawn_(drawn) {}

  /// An operation is about to run that could be left out in a replay.
  void begins(const TensorList& inputs);
  /// An operation of the region ran.
  void ran(const char* name, const TensorList& inputs, const TensorList& results, const OpPlace& place);
  /// An operation ran inside another one, or inside a nested checkpoint.
  void ran_inside(const TensorList& inputs);
  /// The last operation saved `x` in `slot`.
  void saved(const Tensor& x, size_t slot);

  const std::vector<OpRecord>& ops() const { return ops_; }
  const std::vector<SlotSource>& slots() const { return slots_; }
  /// What nested checkpoints read: every replay runs them.
  const std::vector<ResultId>& always_read() const { return always_read_; }

  /// Something happened that no order of operations shows: a replay has to run everything.
  void give_up();
  bool is_usable() const { return usable_; }

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
  bool changed_an_argument(const TensorList& inputs) const;
  void note_draws();
  void hold(const Produced& produced, const Tensor& x);

  const Policy& policy_;
  const std::vector<autograd::DrawnGenerator>& drawn_;
  std::vector<Generator::State> drawn_states_;  // after the last operation
  std::vector<OpRecord> ops_;
  std::vector<SlotSource> slots_;
  std::vector<ResultId> always_read_;
  std::vector<Place> inputs_;           // of the last operation, as long as it saves
  std::vector<ResultId> reads_inside_;  // of the operation that runs
  std::unordered_map<const Storage*, Produced> produced_;
  std::map<ResultId, Tensor> held_;
  std::map<size_t, Tensor> inner_;
  std::vector<uint64_t> versions_;  // of the arguments of the operation that runs
  bool asked_ = false;
  bool usable_ = true;
};

}  // namespace reprise::recompute
