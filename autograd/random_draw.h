// Where operations draw random numbers: through `random_draw`, so that a region that will be played again
// knows which generators it used and where they stood.
#pragma once

#include <vector>

#include "reprise/core/random.h"

namespace reprise::autograd {

/// The (seed, offset) of one operation's draws from `generator`; null means the thread's default.
Generator::State random_draw(Generator* generator);

/// A sum of hashes of what this thread has drawn so far: its growth tells what was drawn meanwhile.
uint64_t sum_of_draws();

/// A generator as a region found it.
struct DrawnGenerator {
  Generator* generator = nullptr;  ///< null: the default generator of whichever thread plays the region
  Generator::State state;          ///< before the region's first draw

  Generator& resolve() const;
};

/// While it lives, notes each generator at its first draw on this thread; recorders around it go on too.
class DrawRecorder {
 public:
  /// `into` outlives the recorder; null notes nothing and hides the recorders around it.
  explicit DrawRecorder(std::vector<DrawnGenerator>* into);
  ~DrawRecorder();
  DrawRecorder(const DrawRecorder&) = delete;

 private:
  friend Generator::State random_draw(Generator*);
  void note(Generator* generator);

  std::vector<DrawnGenerator>* into_;
  DrawRecorder* outer_;
};

/// Sets generators back to where a region found them while it lives, and then to where they were.
class RestoreGenerators {
 public:
  explicit RestoreGenerators(const std::vector<DrawnGenerator>& drawn);
  ~RestoreGenerators();
  RestoreGenerators(const RestoreGenerators&) = delete;

 private:
  std::vector<DrawnGenerator> previous_;
};

}  // namespace reprise::autograd
