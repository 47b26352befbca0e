// Random programs, played plainly and with their regions as checkpoints of random options: every output,
// gradient and generator is the same to the bit. Some have what they reach by themselves changed before
// backward: then the bits are the same still, or there is an Error, and none without a reason. A failure
// prints the seed and the program.
#include "reprise/tests/autograd/recompute/random_programs.h"

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/saved_tensor.h"

namespace reprise {
namespace {

using testing::Change;
using testing::NoLeaks;
using testing::numbers;
using testing::Program;
using testing::ProgramMachine;
using testing::same_bits;

// What is done with the results of a program.
enum class Use { one_backward, two_backwards, gradients, second_order, drops_a_result };

struct Outcome {
  TensorList tensors;
  std::vector<Generator::State> generators;
  int hook_calls = 0;
};

void collect_gradients(const ProgramMachine& machine, Outcome& outcome) {
  for (const TensorList* leaves : {&machine.inputs, &machine.parameters})
    for (const Tensor& x : *leaves) outcome.tensors.push_back(x.grad());
}

struct Run {
  bool recomputes = false, autocast = false;
  Change change{};
  int fails_after = 0;
};

Outcome run(const Program& program, uint64_t seed, Use use, const Run& how, bool* was_read = nullptr) {
  ProgramMachine machine(how.recomputes, seed);
  machine.compares_all = how.change.changes_anything();
  machine.fails_after = how.fails_after;
  Outcome outcome;
  {
    std::optional<amp::Autocast> autocast;
    if (how.autocast) autocast.emplace(testing::test_device(), DType::bf16);
    TensorList results = machine.play(program, {sin(machine.inputs[0]), machine.inputs[1]});
    autocast.reset();
    for (const Tensor& y : results) outcome.tensors.push_back(y.detach());
    Tensor loss = sum(results[0] * numbers(results[0].shape(), seed + 7));
    if (use != Use::drops_a_result) loss = loss + sum(results[1] * numbers(results[1].shape(), seed + 8));
    results.clear();
    machine.apply(how.change);
    if (was_read) *was_read = machine.was_read_in_a_region(how.change);
    if (use == Use::two_backwards) loss.backward({}, true);
    if (use == Use::gradients || use == Use::second_order) {
      bool second = use == Use::second_order;
      TensorList dx = autograd::grad({loss}, machine.inputs, {},
                                     {.retain_graph = true, .create_graph = second, .allow_unused = true});
      for (const Tensor& g : dx) outcome.tensors.push_back(g.defined() ? g.detach() : g);
      if (second)
        for (const Tensor& g : dx)
          if (g.defined()) loss = loss + sum(square(g));
    }
    loss.backward();
  }
  collect_gradients(machine, outcome);
  outcome.tensors.push_back(machine.state);
  outcome.generators = {default_generator().state(), machine.generator.state()};
  outcome.hook_calls = machine.hook_calls;
  return outcome;
}

void expect_same(const Outcome& got, const Outcome& want) {
  ASSERT_EQ(got.tensors.size(), want.tensors.size());
  EXPECT_TRUE(same_bits(got.tensors, want.tensors));
  EXPECT_EQ(got.generators, want.generators);
  EXPECT_EQ(got.hook_calls, want.hook_calls);
}

// Without checkpoints, as what was saved for backward is gone.
bool fails(const Program& program, uint64_t seed, Use use, bool autocast, const Change& change) {
  try {
    run(program, seed, use, {false, autocast, change});
    return false;
  } catch (const Error&) { return true; }
}

// Somewhere in forward or in a replay fn throws: what follows on this thread is as ever.
void expect_nothing_left_of_a_failure(const Program& program, uint64_t seed, Use use, const Run& how) {
  try {
    run(program, seed, use, how);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("as far as it goes"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(recompute::is_replaying() || autograd::OpObserver::any() ||
               autograd::SavedTensorHooks::active());
  EXPECT_EQ(autograd::InsideOp::depth(), 0);
  EXPECT_TRUE(autograd::grad_mode_enabled() && !amp::autocast_state().any);
}

void check_program(uint64_t seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  Program program = testing::random_program(random, {.of_operations_alone = random() % 3 > 0});
  auto use = Use(random() % 5);
  if (program.has_reentrant() && (use == Use::gradients || use == Use::second_order)) use = Use::one_backward;
  const bool autocast = random() % 5 == 0;
  Change change = random() % 3 == 0 ? testing::random_change(random) : Change();
  SCOPED_TRACE("seed " + std::to_string(seed) + ", use " + std::to_string(int(use)) +
               (autocast ? ", autocast" : "") + ", change " + change.text() + "\n" + program.text());
  NoLeaks guard;
  if (random() % 4 == 0)
    expect_nothing_left_of_a_failure(program, seed, use, {true, autocast, {}, int(1 + random() % 40)});
  Outcome want = run(program, seed, use, {false, autocast});
  bool was_read = false;
  try {
    Outcome got = run(program, seed, use, {true, autocast, change}, &was_read);
    // What a reentrant region makes outside of the graph is in it afterwards, with hooks that see zeros.
    if (program.has_reentrant()) got.hook_calls = want.hook_calls;
    expect_same(got, want);
  } catch (const std::exception& error) {
    bool may_fail = change.changes_anything() && (was_read || fails(program, seed, use, autocast, change));
    EXPECT_TRUE(may_fail) << error.what();
  }
}

// REPRISE_PROGRAMS asks for more, from that seed on: "1000:5000".
TEST(RandomPrograms, HaveTheSameBitsWithAndWithoutCheckpoints) {
  uint64_t first = 1, count = 100;
  if (const char* asked = std::getenv("REPRISE_PROGRAMS")) std::sscanf(asked, "%lu:%lu", &first, &count);
  for (uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) check_program(seed);
}

// A region's kept value is rebuilt by the region around, which changes in place what lies in the memory of this one's input.
TEST(RandomPrograms, HaveTheSameBitsWhereOneWasWrongOnce) { check_program(537944); }

}  // namespace
}  // namespace reprise
