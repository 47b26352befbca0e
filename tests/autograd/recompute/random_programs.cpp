// Making random programs, and playing them.
#include "reprise/tests/autograd/recompute/random_programs.h"

#include <sstream>
#include <utility>

#include "reprise/tests/autograd/recompute/random_operations.h"

namespace reprise::testing {
namespace {

// A replay may end by what is thrown.
struct Entered {
  explicit Entered(int& around) : depth(around) { ++depth; }
  ~Entered() { --depth; }
  Entered(const Entered&) = delete;
  int& depth;
};

size_t below(std::mt19937& random, size_t end) { return random() % end; }

RandomRegion random_region(std::mt19937& random, const ProgramSize& size, size_t values,
                           bool own_is_in_graph) {
  RandomRegion region;
  for (int i = 0; i < 2; ++i) region.inputs.push_back(below(random, values));
  if (size.captures)
    for (size_t i = below(random, 3); i-- > 0;) region.captured.push_back(below(random, values));
  region.gives_own = own_is_in_graph && below(random, 3) == 0;
  ProgramSize inside{size.statements / 2 + 1, size.depth - 1, size.of_operations_alone, size.captures};
  if (region.gives_own) inside.captures = false;  // what is captured, and changed afterwards, is an Error
  region.body = std::make_shared<Program>(
      random_program(random, inside, 2 + size_t(region.gives_own) + region.captured.size()));
  region.early_stop = below(random, 4) > 0;
  region.offload = below(random, 3) == 0;
  if (below(random, 5) == 0) {
    region.mode = CheckpointMode::reentrant;
    return region;
  }
  constexpr Determinism determinisms[] = {Determinism::metadata, Determinism::none, Determinism::values};
  region.determinism = determinisms[below(random, 2) + (below(random, 6) == 0)];
  region.debug = below(random, 5) == 0;
  if (below(random, 3) > 0) region.policy = uint32_t(random());
  return region;
}

std::string text_of(const RandomRegion& region, int indent) {
  std::ostringstream text;
  text << name_of(region.mode) << " region of";
  for (size_t i : region.inputs) text << ' ' << i;
  if (region.gives_own) text << " and its own";
  for (size_t i : region.captured) text << ", captures " << i;
  if (region.policy) text << ", policy " << *region.policy;
  if (region.determinism != Determinism::metadata) text << ", determinism " << int(region.determinism);
  text << (region.early_stop ? "" : ", to the end") << (region.debug ? ", debug" : "")
       << (region.offload ? ", offload" : "") << '\n'
       << region.body->text(indent + 1);
  return text.str();
}

}  // namespace

std::string Program::text(int indent) const {
  std::ostringstream text;
  if (own_is_in_graph) text << std::string(size_t(2 * indent), ' ') << "its own is in the graph\n";
  for (const Statement& s : statements) {
    text << std::string(size_t(2 * indent), ' ');
    if (s.region)
      text << text_of(*s.region, indent);
    else
      text << operation(s.op).first << ' ' << s.a << ' ' << s.b << " by " << s.number << '\n';
  }
  text << std::string(size_t(2 * indent), ' ') << "returns the last, and " << output << '\n';
  return text.str();
}

bool Program::has_reentrant() const {
  for (const Statement& s : statements)
    if (s.region && (s.region->mode == CheckpointMode::reentrant || s.region->body->has_reentrant()))
      return true;
  return false;
}

Program random_program(std::mt19937& random, const ProgramSize& size, size_t inputs) {
  Program program;
  program.own_is_in_graph = below(random, 2) == 0;
  size_t values = inputs;
  for (size_t n = 2 + below(random, size_t(size.statements)); n-- > 0;) {
    // Mostly new values, so that much depends on much.
    auto place = [&] { return below(random, 3) ? values - 1 - below(random, 2) : below(random, values); };
    Statement s{.op = below(random, below(random, 5) ? operation_count(size) : kDraws),
                .a = place(),
                .b = place(),
                .number = double(below(random, 100)) / 100};
    if (size.depth > 0 && below(random, 4) == 0)
      s.region = random_region(random, size, values, program.own_is_in_graph);
    values += s.region ? 2 : 1;
    program.statements.push_back(std::move(s));
  }
  program.output = below(random, values);
  return program;
}

ProgramMachine::ProgramMachine(bool recomputes, uint64_t seed)
    : generator(seed + 1), recomputes_(recomputes) {
  manual_seed(seed);
  for (uint64_t i = 0; i < 2; ++i) inputs.push_back(leaf({kSide, kSide}, 10 * seed + i));
  for (uint64_t i = 2; i < 5; ++i) parameters.push_back(leaf({kSide, kSide}, 10 * seed + i));
  for (uint64_t i = 5; i < 7; ++i) buffers.push_back(numbers({kSide, kSide}, 10 * seed + i));
  state = numbers({kSide, kSide}, 10 * seed + 7);
}

void ProgramMachine::note(Reached what, size_t index) {
  if (regions_around_ > 0) read_.emplace(what, index);
}
const Tensor& ProgramMachine::parameter(size_t i) { return note(Reached::parameter, i), parameters[i]; }
const Tensor& ProgramMachine::buffer(size_t i) { return note(Reached::buffer, i), buffers[i]; }
double ProgramMachine::number(size_t i) { return note(Reached::number, i), numbers_[i]; }
bool ProgramMachine::is_training() { return note(Reached::mode, 0), training_; }

Change random_change(std::mt19937& random) {
  Change change{.kind = Change::Kind(1 + below(random, 5)), .what = Reached(below(random, 4))};
  bool is_tensor = change.what == Reached::parameter || change.what == Reached::buffer;
  if (!is_tensor && change.kind != Change::Kind::and_back) change.kind = Change::Kind::assigned;
  if (change.what == Reached::parameter && change.kind == Change::Kind::assigned)
    change.kind = Change::Kind::new_data;  // its gradient is wanted
  change.index = change.what == Reached::mode ? 0 : below(random, change.what == Reached::parameter ? 3 : 2);
  return change;
}

std::string Change::text() const {
  constexpr const char* kinds[] = {"none",     "written",           "new data",
                                   "assigned", "assigned and back", "same data"};
  constexpr const char* whats[] = {"parameter", "buffer", "number", "mode"};
  if (kind == Kind::none) return "none";
  return std::string(kinds[int(kind)]) + ", " + whats[int(what)] + ' ' + std::to_string(index);
}

void ProgramMachine::apply(const Change& change) {
  using Kind = Change::Kind;
  if (change.kind == Kind::none) return;
  NoGrad off;
  if (change.what == Reached::number) {
    double was = std::exchange(numbers_[change.index], 2.25);
    if (change.kind == Kind::and_back) numbers_[change.index] = was;
    return;
  }
  if (change.what == Reached::mode) {
    training_ = change.kind == Kind::and_back;
    return;
  }
  Tensor& x = (change.what == Reached::buffer ? buffers : parameters)[change.index];
  Tensor was = x, other = numbers(x.shape(), 77);
  if (change.kind == Kind::written) x.copy_(other);
  if (change.kind == Kind::new_data) x.set_data(other);
  if (change.kind == Kind::assigned || change.kind == Kind::and_back) x = other;
  if (change.kind == Kind::and_back) x = was;
  if (change.kind == Kind::same_data && change.what == Reached::buffer) x = was.detach();
}

TensorList ProgramMachine::play(const Program& program, TensorList values) {
  Tensor first = values[0];
  const Tensor own =
      program.own_is_in_graph ? parameter(0) * 0.0 : zeros({kSide, kSide}, DType::f32, first.device());
  for (const Statement& s : program.statements) {
    if (fails_after > 0 && --fails_after == 0) fail("random program: this is as far as it goes");
    if (s.region) {
      for (const Tensor& y : call(*s.region, values, own)) values.push_back(y.to(DType::f32));
    } else {
      values.push_back(
          operation(s.op).second({*this, values[s.a], values[s.b], s.number, own}).to(DType::f32));
    }
  }
  return {values.back() + tanh(first * parameters[0]), values[program.output]};
}

TensorList ProgramMachine::call(const RandomRegion& region, const TensorList& values, const Tensor& own) {
  TensorList given, captured;
  for (size_t i : region.inputs) given.push_back(values[i]);
  if (region.gives_own) given.push_back(own);
  for (size_t i : region.captured) captured.push_back(values[i]);
  auto fn = [this, captured, body = region.body, gives_own = region.gives_own](const TensorList& in) {
    TensorList all = in;
    all.insert(all.end(), captured.begin(), captured.end());
    Entered entered(regions_around_);
    TensorList results = play(*body, all);
    if (gives_own) results[1] = results[1].clone();  // no view of what changes in place
    return results;
  };
  return recomputes_ ? checkpoint(fn, given, options_of(region)) : fn(given);
}

CheckpointOptions ProgramMachine::options_of(const RandomRegion& region) const {
  CheckpointOptions options{.mode = region.mode,
                            .early_stop = region.early_stop,
                            .determinism = compares_all && region.determinism == Determinism::none
                                               ? Determinism::metadata
                                               : region.determinism,
                            .debug = region.debug};
  if (region.offload) options.offload = store_;
  if (!region.policy) return options;
  options.policy = [salt = *region.policy, store = region.offload](const PolicyOp& op) mutable {
    uint32_t hash = salt += 97;                                      // each operation's own decision
    for (char c : op.name) hash = (hash ^ uint32_t(c)) * 16777619u;  // FNV-1a (Fowler, Noll, Vo)
    hash ^= hash >> 15;
    if (hash % 3 == 0) return store ? Decision::offload : Decision::save;
    return hash % 3 == 1 ? Decision::save : Decision::recompute;
  };
  return options;
}

}  // namespace reprise::testing
