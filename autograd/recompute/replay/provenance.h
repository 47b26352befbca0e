// Provenance: what each tensor of one run of a region was made of, as a hash over all operations and their
// arguments that led to it. Where a replay rebuilds a tensor of another provenance than the first run saved,
// it did something else. Operations that lead to nothing which is rebuilt do not matter.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "reprise/autograd/op_observer.h"

namespace reprise::recompute {

class Provenance {
 public:
  enum class Draws : uint8_t { compared, ignored };

  /// Of a run that is given `inputs` and begins now. `first`: that of the first run, if this is a replay.
  Provenance(const TensorList& inputs, Draws draws, const Provenance* first = nullptr);

  // What the run does; operations inside of others are left out.
  void op_begins(const autograd::OpCall& call);
  void op_ran(const TensorList& results);
  /// The results of the operation that began are these, and it did not run: it is known by `op`.
  void op_was_left_out(uint64_t op, const TensorList& results);
  void made(const autograd::OpCall& call, const Tensor& y);
  void will_write(const autograd::OpCall& call);
  void took_place(const Tensor& before, const Tensor& now);
  /// `in_backward`: by a backward pass that fn runs, which reads what operations have saved.
  void data_asked(const Tensor& x, bool in_backward);

  /// A backward pass inside the run reads x in the place of a saved tensor of this origin. `replay` made x: what it knows of other
  /// views of the memory is so here too.
  void stands_for(const Tensor& x, uint64_t origin, const Provenance* replay);

  uint64_t of(const Tensor& x);
  /// Of a tensor that the last operation saved: an argument, a result, or something inside of it.
  uint64_t of_saved(const Tensor& x);
  /// Of the last operation, with its arguments; and with what it drew as well.
  uint64_t of_call() const { return steps_.empty() ? 0 : steps_.back().call; }
  uint64_t of_op() const { return steps_.empty() ? 0 : steps_.back().op; }

  /// "operation 3, mul(f32(2, 2), f32(2, 2))": the last one.
  std::string place_of_last() const { return steps_.empty() ? "no operation" : place_of(steps_.back()); }

  /// What made a tensor of this run and one of the replay's differ, `what` being both: the operation, what it
  /// was and what it is now.
  std::string difference(const std::string& what, uint64_t first, const Provenance& replay,
                         uint64_t now) const;

 private:
  struct Form {
    DType dtype = DType::f32;
    Shape shape;
  };
  struct Argument {
    uint64_t origin = 0;
    Form form;
  };
  struct Step {
    const char* name;
    autograd::Attributes attributes;
    std::vector<Argument> arguments{};
    uint64_t call = 0, op = 0;
    uint64_t last_storage = 0;  // before it began
    uint64_t draws = 0;         // so far when it began; what it drew when it has ended
    size_t saved = 0;           // tensors from its inside
  };
  struct Known {
    uint64_t origin = 0, version = 0, storage = 0;
  };
  /// What the tensor was that was announced last to be written; `writes` to its memory since.
  struct Written {
    uint64_t origin = 0, writes = 0;
  };
  /// What no operation made.
  struct Source {
    enum class Kind : uint8_t { input, captured, fresh } kind = Kind::fresh;
    uint64_t id = 0;  // its place among the inputs, or its storage
    Form form;
  };

  bool is_inside_operation() const;
  /// Whether it was there before the run. Views of it that are not known were captured.
  bool is_older(const Storage& storage) const { return storage.id() <= last_before_; }
  /// ... and nothing of it was given.
  bool is_captured(const Storage& storage) const;
  void begin(const autograd::OpCall& call);
  void note_results(const TensorList& results);
  void know(const Tensor& x, uint64_t origin);
  uint64_t source_of(const Tensor& x, uint64_t key);
  /// What x is to this run, if it is that still; null if it never met x.
  const uint64_t* known(const Tensor& x, uint64_t key) const;
  const Step* maker(uint64_t origin) const;
  std::string place_of(const Step& step) const;
  std::string origin_text(uint64_t origin) const;
  std::string source_difference(const Source& first, const Source& now) const;
  static Form form_of(const Tensor& x);
  static std::string text_of(const Form& form);

  int depth_;
  Draws draws_;
  const Provenance* first_;
  uint64_t last_before_ = Storage::last_id();
  std::unordered_set<uint64_t> given_,
      touched_;                                // storages: of inputs and of kept results; asked for by hand
  std::unordered_map<uint64_t, Known> known_;  // by view
  std::unordered_map<uint64_t, uint64_t> same_as_;  // of a view with two origins: the known one, by the other
  std::unordered_map<uint64_t, uint64_t> writes_;   // by storage: a hash of all writes
  std::unordered_map<uint64_t, size_t> makers_;     // steps, by what they made
  std::unordered_map<uint64_t, Source> sources_;    // by origin
  std::vector<Step> steps_;
  std::optional<Written> written_;
};

}  // namespace reprise::recompute
