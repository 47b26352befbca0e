// Random programs, played plainly and with their regions as checkpoints of random options: every output,
// gradient and generator is the same to the bit. A failure prints the seed and the program.
#include "reprise/tests/autograd/recompute/random_programs.h"

namespace reprise {
namespace {

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

Outcome run(const Program& program, uint64_t seed, Use use, bool recomputes) {
  ProgramMachine machine(recomputes, seed);
  Outcome outcome;
  {
    TensorList results = machine.play(program, {sin(machine.inputs[0]), machine.inputs[1]});
    for (const Tensor& y : results) outcome.tensors.push_back(y.detach());
    Tensor loss = sum(results[0] * numbers(results[0].shape(), seed + 7));
    if (use != Use::drops_a_result) loss = loss + sum(results[1] * numbers(results[1].shape(), seed + 8));
    results.clear();
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
  outcome.generators = {default_generator().state(), machine.generator.state()};
  outcome.hook_calls = machine.hook_calls;
  return outcome;
}

void expect_same(const Outcome& got, const Outcome& want) {
  ASSERT_EQ(got.tensors.size(), want.tensors.size());
  for (size_t i = 0; i < want.tensors.size(); ++i)
    EXPECT_TRUE(same_bits(got.tensors[i], want.tensors[i])) << "tensor " << i;
  EXPECT_EQ(got.generators, want.generators);
  EXPECT_EQ(got.hook_calls, want.hook_calls);
}

void check_program(uint64_t seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  Program program = testing::random_program(random, {.of_operations_alone = random() % 3 > 0});
  auto use = Use(random() % 5);
  if (program.has_reentrant() && (use == Use::gradients || use == Use::second_order)) use = Use::one_backward;
  SCOPED_TRACE("seed " + std::to_string(seed) + ", use " + std::to_string(int(use)) + "\n" + program.text());
  NoLeaks guard;
  Outcome want = run(program, seed, use, false);
  try {
    Outcome got = run(program, seed, use, true);
    // What a reentrant region makes outside of the graph is in it afterwards, with hooks that see zeros.
    if (program.has_reentrant()) got.hook_calls = want.hook_calls;
    expect_same(got, want);
  } catch (const std::exception& error) { ADD_FAILURE() << error.what(); }
}

// REPRISE_PROGRAMS asks for more, from that seed on: "1000:5000".
TEST(RandomPrograms, HaveTheSameBitsWithAndWithoutCheckpoints) {
  uint64_t first = 1, count = 100;
  if (const char* asked = std::getenv("REPRISE_PROGRAMS")) std::sscanf(asked, "%lu:%lu", &first, &count);
  for (uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) check_program(seed);
}

}  // namespace
}  // namespace reprise
