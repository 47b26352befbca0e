// The default generator of each thread.
#include "reprise/core/random.h"

namespace reprise {

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

void manual_seed(uint64_t seed) { default_generator() = Generator(seed); }

}  // namespace reprise
