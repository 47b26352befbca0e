// Random programs: lists of operations, of which some are regions with programs of their own. A program can
// be played with its regions as checkpoints or as plain calls.
#pragma once

#include <random>
#include <set>

#include "reprise/autograd/recompute/offload/offload.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise::testing {

struct Program;

/// A region's body, and how it is checkpointed.
struct RandomRegion {
  std::shared_ptr<Program> body;
  std::vector<size_t> inputs, captured;  ///< places among the values around
  CheckpointMode mode = CheckpointMode::non_reentrant;
  Determinism determinism = Determinism::metadata;
  bool early_stop = true, debug = false, offload = false;
  bool gives_own = false;            ///< the tensor of the program around that operations change in place
  std::optional<uint32_t> policy{};  ///< its salt
};

/// values.push_back(op(values[a], values[b], number)); a region pushes two.
struct Statement {
  size_t op = 0, a = 0, b = 0;
  double number = 0;
  std::optional<RandomRegion> region{};
};

struct Program {
  std::vector<Statement> statements;
  size_t output = 0;             ///< the place of the second result; the first comes from the last value
  bool own_is_in_graph = false;  ///< the tensor that operations change in place, from the beginning
  std::string text(int indent = 0) const;
  bool has_reentrant() const;
};

struct ProgramSize {
  int statements = 12, depth = 3;
  bool of_operations_alone = false;  ///< nothing that makes a replay run everything
  bool captures = true;              ///< regions do
};
Program random_program(std::mt19937& random, const ProgramSize& size = {}, size_t inputs = 2);

/// What programs reach by themselves, beside their inputs.
enum class Reached : uint8_t { parameter, buffer, number, mode };

/// What happens to it between forward and backward.
struct Change {
  enum class Kind : uint8_t {
    none,
    written,    ///< in place
    new_data,   ///< by set_data
    assigned,   ///< another tensor, or number, or mode
    and_back,   ///< assigned, and assigned again what it was
    same_data,  ///< a tensor is assigned that shares its data
  } kind = Kind::none;
  Reached what = Reached::buffer;
  size_t index = 0;
  bool changes_anything() const { return kind >= Kind::written && kind <= Kind::assigned; }
  std::string text() const;
};
Change random_change(std::mt19937& random);

/// What a program runs on.
class ProgramMachine {
 public:
  explicit ProgramMachine(bool recomputes, uint64_t seed);

  /// Two results of two inputs.
  TensorList play(const Program& program, TensorList values);
  void apply(const Change& change);
  /// Whether a region has read it.
  bool was_read_in_a_region(const Change& change) const {
    return read_.contains({change.what, change.index});
  }

  const Tensor& parameter(size_t i);
  const Tensor& buffer(size_t i);
  double number(size_t i);
  bool is_training();

  bool compares_all = false;  ///< no region has determinism none
  int fails_after = 0;        ///< statements, in forward and replays: Error; 0: never
  TensorList inputs, parameters, buffers;
  Tensor state;         ///< which the first run of a region changes
  Generator generator;  ///< beside the default one
  int hook_calls = 0;

 private:
  void note(Reached what, size_t index);
  TensorList call(const RandomRegion& region, const TensorList& values, const Tensor& own);
  CheckpointOptions options_of(const RandomRegion& region) const;

  bool recomputes_, training_ = true;
  int regions_around_ = 0;
  std::vector<double> numbers_{0.75, 1.5};
  std::set<std::pair<Reached, size_t>> read_;
  std::shared_ptr<Offload> store_ =
      std::make_shared<Offload>(OffloadOptions{.resident_regions = 0, .min_bytes = 1});
};

}  // namespace reprise::testing
