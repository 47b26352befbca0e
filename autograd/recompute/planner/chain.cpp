// Playing a plan on paper.
//
// Note [What a step holds]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Let x[i] be what stage i reads and x[i + 1] what it makes.
//
//   * A stage that is played plainly leaves its saved tensors and x[i + 1] behind.
//   * The first run of a region [b, e) keeps x[b], which is there already, and x[e]. While stage k of it
//   runs,
//     x[k] is there too and goes when the stage is done.
//   * Backward of a plain stage takes the gradient of x[i + 1] and leaves the one of x[i]; what the stage
//   kept
//     is gone then, x[i + 1] before it begins unless the stage itself keeps it, which its workspace counts.
//   * Backward of a region comes when x[e] is gone and its gradient is there. The replay runs through the
//   layers
//     once more, by the plan inside, beside that gradient; then backward of what is inside is the same again.
//     The rebuilt tensors of all plain stages inside are there at once, each goes as it is read. The last
//     plain stage of a replay stops early and x[e] is let go.
//   * Gradients of parameters stay from the backward of their stage on, or are there all the time.
//   * A skip is an output that a later stage reads too (`skip_to`). A region that makes it and ends before that stage
//     gives it beside x[e]; it stays until the later stage's backward, and its gradient from there on until the
//     region's. The stages between have the gradient as workspace (profile.cpp), which is that of the concatenation where
//     it is a part of it: they may play beside it, in backward and in replays, and the skip itself may be there too. In
//     a first run it is not: that errs on the safe side.
//
// A boundary that neither neighbour keeps (a dropout, which saves its mask alone) is counted although it is
// gone: the model errs on the safe side there.
#include "reprise/autograd/recompute/planner/chain.h"

#include <algorithm>
#include <cmath>

namespace reprise::recompute {
namespace {

class Simulation {
 public:
  explicit Simulation(const Chain& chain)
      : chain_(chain), held_(chain.base_bytes + chain.held_bytes()), peak_(held_) {}

  PlanCost run(const Plan& plan) {
    forward_stage(chain_.before);
    forward(plan);
    forward_stage(chain_.after);
    backward_stage(chain_.after, chain_.boundary_before(chain_.size()));
    backward(plan);
    backward_stage(chain_.before, 0);
    return {peak_, seconds_};
  }

 private:
  void touch(int64_t bytes) { peak_ = std::max(peak_, held_ + bytes); }

  void forward_stage(const Stage& s) {
    touch(s.saved_bytes + s.boundary_bytes + s.workspace_forward_bytes);
    held_ += s.saved_bytes + s.boundary_bytes;
    seconds_ += s.forward_seconds;
  }

  void last_stage_of_replay(const Stage& s) {
    touch(s.saved_bytes + s.boundary_bytes + s.workspace_forward_bytes - s.early_stop_bytes);
    held_ += s.saved_bytes + s.boundary_bytes;  // the output's part is for its gradient; see replay
    seconds_ += s.forward_seconds - s.early_stop_seconds;
  }

  void backward_stage(const Stage& s, int64_t input_bytes) {
    held_ -= s.saved_bytes + s.boundary_bytes;
    touch(s.saved_bytes + s.boundary_bytes + s.workspace_backward_bytes);
    held_ += s.gradient_bytes;
    touch(input_bytes);
    seconds_ += s.backward_seconds;
  }

  void first_run(const Segment& segment) {
    for (int64_t k = segment.begin; k < segment.end; ++k) {
      const Stage& s = chain_.stages[size_t(k)];
      touch((k > segment.begin ? chain_.given_bytes(segment.begin, k) : 0) + s.boundary_bytes +
            s.workspace_unsaved_bytes);
      seconds_ += s.forward_seconds;
    }
    held_ += chain_.given_bytes(segment.begin, segment.end);
  }

  void forward_plain(int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) forward_stage(chain_.stages[size_t(i)]);
  }
  void backward_plain(int64_t begin, int64_t end) {
    for (int64_t i = end; i-- > begin;) backward_stage(chain_.stages[size_t(i)], chain_.boundary_before(i));
  }

  void forward(const Plan& plan) {
    for (const Segment& s : plan) s.checkpointed ? first_run(s) : forward_plain(s.begin, s.end);
  }

  void backward(const Plan& plan) {
    for (auto s = plan.rbegin(); s != plan.rend(); ++s)
      s->checkpointed ? replay(*s) : backward_plain(s->begin, s->end);
  }

  void replay(const Segment& region) {  // held is the same with what it gave as with the gradients alone
    const Plan whole{{.begin = region.begin, .end = region.end}};
    const Plan& inside = region.inside.empty() ? whole : region.inside;
    replay_forward(inside);
    const int64_t last = chain_.boundary_before(region.end);
    held_ -= last;  // of the gradient, which the last stage counts from here on
    backward(inside);
    held_ -= chain_.given_bytes(region.begin, region.end) - last;
  }

  void replay_forward(const Plan& inside) {
    for (const Segment& s : inside) {
      bool last = s.end == inside.back().end;
      if (s.checkpointed)
        first_run(s);
      else
        forward_plain(s.begin, s.end - last);
      if (!s.checkpointed && last) last_stage_of_replay(chain_.stages[size_t(s.end - 1)]);
    }
  }

  const Chain& chain_;
  int64_t held_, peak_;
  double seconds_ = 0;
};

void check_stage(const Stage& s, const std::string& what) {
  for (int64_t bytes : {s.saved_bytes, s.boundary_bytes, s.workspace_forward_bytes, s.workspace_unsaved_bytes,
                        s.workspace_backward_bytes, s.gradient_bytes, s.held_gradient_bytes, s.kept_bytes,
                        s.early_stop_bytes})
    check(bytes >= 0, "recompute: ", what, " of the chain has a negative number of bytes: ", bytes);
  for (double seconds : {s.forward_seconds, s.backward_seconds})
    check(std::isfinite(seconds) && seconds >= 0, "recompute: ", what, " of the chain takes ", seconds,
          " seconds");
  check(s.early_stop_seconds >= 0 && s.early_stop_seconds <= s.forward_seconds &&
            s.early_stop_bytes <= s.saved_bytes + s.boundary_bytes + s.workspace_forward_bytes,
        "recompute: ", what,
        " of the chain saves more than it takes by an early stop: ", s.early_stop_seconds, " seconds and ",
        s.early_stop_bytes, " bytes");
}

}  // namespace

int64_t Chain::held_bytes() const {
  auto of = [](const Stage& s) { return s.held_gradient_bytes + s.kept_bytes; };
  int64_t bytes = of(before) + of(after);
  for (const Stage& s : stages) bytes += of(s);
  return bytes;
}

int64_t Chain::given_bytes(int64_t begin, int64_t end) const {
  int64_t bytes = boundary_before(end);
  for (int64_t i = begin; i < end - 1; ++i)
    if (stages[size_t(i)].skip_to >= end) bytes += stages[size_t(i)].boundary_bytes;
  return bytes;
}

void check_chain(const Chain& chain) {
  check(chain.size() > 0, "recompute: the chain has no stages");
  check(chain.base_bytes >= 0, "recompute: the chain's base is ", chain.base_bytes, " bytes");
  check_stage(chain.before, "what is before the stages");
  check_stage(chain.after, "what is after the stages");
  for (int64_t i = 0; i < chain.size(); ++i) {
    const Stage& s = chain.stages[size_t(i)];
    check_stage(s, reprise::detail::join("stage ", i));
    check(s.skip_to == 0 || (s.skip_to > i + 1 && s.skip_to < chain.size()), "recompute: stage ", i,
          " of the chain has a skip to stage ", s.skip_to, " of ", chain.size());
  }
}

PlanCost simulate(const Plan& plan, const Chain& chain) {
  check_plan(plan, chain.size());
  return Simulation(chain).run(plan);
}

}  // namespace reprise::recompute
