// Random programs: lists of operations, of which some are regions with programs of their own. A program can
// be played with its regions as checkpoints or as plain calls.
#pragma once

#include <random>

#include "reprise/autograd/recompute/offload.h"
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
  size_t output = 0;  ///< the place of the second result; the first comes from the last value
  std::string text(int indent = 0) const;
  bool has_reentrant() const;
};

struct ProgramSize {
  int statements = 12, depth = 3;
  bool of_operations_alone = false;  ///< nothing that makes a replay run everything
};
Program random_program(std::mt19937& random, const ProgramSize& size = {}, size_t inputs = 2);

/// What a program runs on.
class ProgramMachine {
 public:
  explicit ProgramMachine(bool recomputes, uint64_t seed);

  /// Two results of two inputs.
  TensorList play(const Program& program, TensorList values);

  TensorList inputs, parameters;
  Generator generator;  ///< beside the default one
  int hook_calls = 0;

 private:
  TensorList call(const RandomRegion& region, const TensorList& values);
  CheckpointOptions options_of(const RandomRegion& region) const;

  bool recomputes_;
  std::shared_ptr<Offload> store_ = std::make_shared<Offload>(OffloadOptions{.keep_last = 0, .min_bytes = 1});
};

}  // namespace reprise::testing
