// Drawing, noting and restoring generators.
#include "reprise/autograd/random_draw.h"

#include <algorithm>
#include <utility>

#include "reprise/core/hash.h"

namespace reprise::autograd {
namespace {

thread_local DrawRecorder* innermost_recorder = nullptr;
thread_local uint64_t drawn = 0;

Generator& resolve(Generator* generator) { return generator ? *generator : default_generator(); }

}  // namespace

Generator& DrawnGenerator::resolve() const { return autograd::resolve(generator); }

Generator::State random_draw(Generator* generator) {
  if (generator == &default_generator()) generator = nullptr;
  for (DrawRecorder* recorder = innermost_recorder; recorder && recorder->into_; recorder = recorder->outer_)
    recorder->note(generator);
  Generator::State state = resolve(generator).next();
  drawn += mix(mix(state.seed), state.offset);
  return state;
}

uint64_t sum_of_draws() { return drawn; }

DrawRecorder::DrawRecorder(std::vector<DrawnGenerator>* into)
    : into_(into), outer_(std::exchange(innermost_recorder, this)) {}
DrawRecorder::~DrawRecorder() { innermost_recorder = outer_; }

void DrawRecorder::note(Generator* generator) {
  auto known = [&](const DrawnGenerator& drawn) { return drawn.generator == generator; };
  if (std::none_of(into_->begin(), into_->end(), known))
    into_->push_back({generator, resolve(generator).state()});
}

RestoreGenerators::RestoreGenerators(const std::vector<DrawnGenerator>& drawn) {
  previous_.push_back({nullptr, default_generator().state()});  // a region may seed it without drawing
  for (const DrawnGenerator& one : drawn) {
    previous_.push_back({one.generator, one.resolve().state()});
    one.resolve().set_state(one.state);
  }
}

RestoreGenerators::~RestoreGenerators() {
  for (auto one = previous_.rbegin(); one != previous_.rend(); ++one) one->resolve().set_state(one->state);
}

}  // namespace reprise::autograd
