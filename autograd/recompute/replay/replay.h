// Replay: one run of a region's body in backward. It compares what happens with the first run and fills
// slots. Operations that no wanted slot depends on do not run: their results are what a policy kept, or
// hollow.
#pragma once

#include <any>

#include "reprise/autograd/recompute/replay/needs.h"
#include "reprise/autograd/recompute/replay/run_observer.h"

namespace reprise::recompute {

/// The tensors that one replay rebuilt, for one backward pass. Each is handed out once and then forgotten.
class Rebuilt {
 public:
  explicit Rebuilt(size_t count) : values_(count) {}
  void put(size_t index, const Tensor& x) { values_[index] = {x, x.version(), State::rebuilt}; }
  /// Error if it was taken before, or changed in place by what the replay ran afterwards.
  Tensor take(size_t index, const SavedSlot& saved);
  /// What the replay knows of them; kept for a backward pass inside the first run alone.
  std::optional<Provenance> provenance{};

 private:
  enum class State : uint8_t { absent, rebuilt, taken };
  struct Value {
    Tensor tensor;
    uint64_t version = 0;
    State state = State::absent;
  };
  std::vector<Value> values_;
};

/// What a replay does.
enum class Effort : uint8_t {
  needed,      ///< what slots that may still be read depend on
  everything,  ///< all of fn, up to the last such slot
};

/// Plays the body again. HollowRead if it reads what was left out: then it needs everything.
std::shared_ptr<Rebuilt> play_again(const Recording& first, const TensorList& inputs, Effort effort);

class Replay final : public RunObserver, public autograd::OpInterceptor {
 public:
  Replay(const Recording& first, Rebuilt& rebuilt, const TensorList& inputs, Effort effort);

  /// Runs the body, until the last slot that may still be read if the region stops early. Error if it
  /// does not do what the first run did; HollowRead if it reads what was left out.
  void play(const TensorList& inputs);
  /// Its provenance, when it has played.
  std::optional<Provenance> take_provenance() { return std::move(own_provenance_); }

  std::optional<TensorList> replacement(const char* op_name, const TensorList& inputs) override;
  bool wants_results() override;
  void op_ran(const char* op_name, const TensorList& inputs, const TensorList& outputs) override;
  /// The pack hook of the replay's own graph, which a backward pass inside the body may use.
  std::any save(const Tensor& x);

 private:
  struct Stop {};  // thrown through the body when nothing is left to rebuild

  bool is_inside_op() const { return autograd::InsideOp::depth() != depth_; }
  // For a backward pass inside the first run always: what comes after it has not happened yet.
  bool stops_early() const {
    return (first_.options.early_stop || !first_.complete) && !first_.body->is_noexcept();
  }
  bool compares() const { return first_.options.determinism != Determinism::none; }
  bool is_last(size_t op) const;
  void find_needs(Effort effort);
  bool fits(const OpRecord& op, const TensorList& inputs) const;
  TensorList results_of(size_t op, const TensorList& inputs) const;
  void fill(size_t slot, const Tensor& x);
  void compare_origin(size_t slot, uint64_t origin);
  void compare_values();
  [[noreturn]] static void start_over();
  /// Through fn, or at its end if nothing may be thrown through it.
  void reject(const std::string& message) override;
  void check_complete();

  const Recording& first_;
  Rebuilt& rebuilt_;
  RunStats counted_;
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
  std::optional<Provenance> own_provenance_;
};

}  // namespace reprise::recompute
