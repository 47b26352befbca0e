// Changing state in the first run of a region only.
#include "reprise/autograd/recompute/update_state.h"

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/random_draw.h"
#include "reprise/autograd/replay_filter.h"

namespace reprise::recompute {

bool is_replaying() { return autograd::ReplayFilter::active(); }

void update_state(const std::function<void()>& update) {
  if (is_replaying()) return;
  std::vector<autograd::DrawnGenerator> drawn;
  {
    NoGrad unrecorded;
    autograd::HideOpObservers unseen;
    autograd::DrawRecorder recorder(&drawn);
    update();
  }
  for (const autograd::DrawnGenerator& one : drawn)
    check(one.generator != nullptr,
          "update_state: the update drew from the thread's generator, and a replay would draw something else "
          "after it; give it a generator of its own");
}

}  // namespace reprise::recompute
