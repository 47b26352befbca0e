// From the call to its mode, with the overrides of scopes.
#include "reprise/autograd/recompute/checkpoint.h"

#include <algorithm>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/recompute/replay/reentrant.h"
#include "reprise/autograd/recompute/replay/region.h"

namespace reprise::recompute {
namespace {

template <bool CheckpointOptions::*option>
thread_local std::optional<bool> overridden;

void check_reentrant(const CheckpointOptions& options) {
  constexpr const char* tail = " needs mode non_reentrant; this checkpoint is reentrant";
  check(!options.context.forward && !options.context.replay, "checkpoint: context", tail);
  check(!options.policy, "checkpoint: policy", tail);
  check(!options.debug, "checkpoint: debug", tail);
  check(options.determinism != Determinism::values, "checkpoint: determinism values", tail);
}

TensorList run_non_reentrant(const std::shared_ptr<Body>& body, const TensorList& inputs,
                             const std::vector<std::string>& paths, CheckpointOptions options) {
  options.early_stop = overridden<&CheckpointOptions::early_stop>.value_or(options.early_stop);
  options.debug = overridden<&CheckpointOptions::debug>.value_or(options.debug);
  autograd::OpObserver::notify_begin({"checkpoint", inputs});
  autograd::OpObserver::notify("checkpoint", inputs, {});  // an enclosing region saves the inputs for us
  return std::make_shared<Region>(body, inputs, paths, options)->first_run(inputs);
}

TensorList with_a_result(TensorList results) {
  auto is_there = [](const Tensor& y) { return y.defined(); };
  check(results.empty() || std::any_of(results.begin(), results.end(), is_there),
        "checkpoint: fn returned an undefined tensor", results.size() > 1 ? " in each place" : "");
  return results;
}

}  // namespace

template <bool CheckpointOptions::*option>
OptionOverride<option>::OptionOverride(bool on) : previous_(std::exchange(overridden<option>, on)) {}
template <bool CheckpointOptions::*option>
OptionOverride<option>::~OptionOverride() {
  overridden<option> = previous_;
}
template class OptionOverride<&CheckpointOptions::early_stop>;
template class OptionOverride<&CheckpointOptions::debug>;

TensorList run_checkpoint(const std::shared_ptr<Body>& body, const TensorList& inputs,
                          const std::vector<std::string>& paths, const CheckpointOptions& options) {
  bool reentrant = options.mode == CheckpointMode::reentrant;
  if (reentrant) check_reentrant(options);
  if (!autograd::grad_mode_enabled()) return with_a_result(body->play(inputs));
  return with_a_result(reentrant ? run_reentrant(body, inputs, paths, options)
                                 : run_non_reentrant(body, inputs, paths, options));
}

}  // namespace reprise::recompute
