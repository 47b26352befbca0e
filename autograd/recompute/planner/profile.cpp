// Measuring a chain, stage by stage.
#include "reprise/autograd/recompute/planner/profile.h"

#include <algorithm>
#include <chrono>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/recompute/planner/dry_run.h"
#include "reprise/autograd/recompute/planner/leaf_gradients.h"
#include "reprise/autograd/recompute/planner/profile_probe.h"

namespace reprise::recompute {
namespace {

double median(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

/// A stage's numbers as they are measured: peaks beyond what was there before it, its input included.
struct Measured {
  int64_t forward_peak = 0, retained = 0;  // retained: by graph and caller, output included
  int64_t first_run_peak = 0, replay_peak = 0, backward_peak = 0;
  int64_t boundary = 0, gradients = 0, held_gradients = 0, kept = 0;
  int64_t kept_result = 0;  // of the boundary, by the graph alone
  int64_t skip_gradient =
      0;  // what is held with the gradient of a skip: that may be a part of a larger tensor
  std::vector<double> forward_seconds, replay_seconds, backward_seconds;

  Stage stage() const {
    int64_t saved = std::max<int64_t>(0, retained - boundary);
    auto beyond = [](int64_t peak, int64_t rest) { return std::max<int64_t>(0, peak - rest); };
    double seconds = median(forward_seconds);
    bool replays = !replay_seconds.empty();
    return {.forward_seconds = seconds,
            .backward_seconds = median(backward_seconds),
            .saved_bytes = saved,
            .boundary_bytes = boundary,
            .workspace_forward_bytes = beyond(forward_peak, saved + boundary),
            .workspace_unsaved_bytes = beyond(first_run_peak, boundary),
            .workspace_backward_bytes = beyond(backward_peak, saved + boundary),
            .gradient_bytes = std::max<int64_t>(0, gradients),
            .held_gradient_bytes = held_gradients,
            .kept_bytes = std::max<int64_t>(0, kept),  // it may free more, which is stale
            .early_stop_seconds = replays ? std::max(0.0, seconds - median(replay_seconds)) : 0,
            .early_stop_bytes = replays ? std::max<int64_t>(0, forward_peak - replay_peak) : 0};
  }
};

class Profiler {
 public:
  Profiler(Device device, const ProfileOptions& options)
      : device_(device),
        memory_(allocator(device)),
        options_(options),
        token_(Tensor::zeros({1}, DType::f32, device).set_requires_grad()),
        leaves_(options.gradients == GradientMemory::held) {
    check(options.repeats >= 1, "profile: ", options.repeats, " repeats; at least 1 is needed");
  }

  /// The stages from `x` on, and what is held beside it. `x` becomes the chain's output.
  void chain(const std::vector<LayerFunction>& layers, Tensor& x, Chain& chain) {
    begin(!layers.empty(), x, chain);
    for (const LayerFunction& layer : layers) chain.stages.push_back(measured(layer, x).stage());
  }
  void chain(const std::vector<ListLayer>& layers, Tensor& x, Chain& chain);

  /// `x` becomes the stage's output.
  Measured measured(const LayerFunction& layer, Tensor& x) {
    Measured m;
    int64_t known = leaves_.added_bytes();
    const int64_t before = held_without_zeros();
    output_of(layer, x);  // finds the leaves, and makes what is made once
    m.kept = held_without_zeros() - before;
    int64_t base = held();
    Tensor y = output_of(layer, x);
    m.boundary = held() - base;
    y = {};
    for (int i = 0; i < options_.repeats; ++i) play(layer, x, m);
    for (int i = 0; i < 2; ++i) play_region(layer, x, m);
    m.held_gradients = leaves_.added_bytes() - known;
    x = output_of(layer, x);
    return m;
  }

  /// What stands around a chain whose output is `x`.
  void around(const auto& step, const Tensor& x, Chain& chain) {
    Measured before, after;
    int64_t known = leaves_.added_bytes();
    leaves_.reset();
    const int64_t without = held_without_zeros();
    play_around(step, x, before, after);  // makes what is made once
    leaves_.reset();
    before = after = {};
    after.kept = held_without_zeros() - without;
    before.boundary = chain.before.boundary_bytes;
    for (int i = 0; i < options_.repeats; ++i) play_around(step, x, before, after);
    after.held_gradients = leaves_.added_bytes() - known;
    chain.before = before.stage();
    chain.after = after.stage();
  }

 private:
  void begin(bool has_layers, const Tensor& x, Chain& chain) {
    check(has_layers, "profile: the chain has no layers");
    chain.before.boundary_bytes = bytes_like(x);
    chain.base_bytes = held() - chain.before.boundary_bytes + options_.later_bytes;
  }

  int64_t bytes_like(const Tensor& x) const {
    int64_t before = held();
    Tensor same = Tensor::empty(x.shape(), x.dtype(), x.device());
    return held() - before;
  }

  int64_t held() const { return int64_t(memory_.stats().held); }
  int64_t held_without_zeros() const { return held() - leaves_.zero_bytes(); }
  int64_t peak() const { return int64_t(memory_.stats().peak_held); }
  double now() const {
    synchronize(device_);
    if (options_.clock) return options_.clock();
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  static Tensor output_of(const LayerFunction& layer, const Tensor& x) {
    NoGrad guard;
    return layer(x).detach();
  }

  // A gradient as it comes out of the next stage. From here on its stage's backward is measured.
  Tensor gradient_like(const Shape& shape, DType dtype, double& begin) {
    Tensor dy = Tensor::empty(shape, dtype, device_);
    dy.fill_(1e-3);
    begin = now();
    memory_.reset_peaks();
    return dy;
  }

  // x on its way into a stage, behind a leaf that wants a gradient; `arrived` is called with x's.
  Tensor entry_of(const Tensor& x, const std::function<void(const Tensor& dx)>& arrived) const {
    Tensor data = x.detach();
    if (!is_floating(x.dtype())) return data;
    return EntryProbe::apply(token_, data, [arrived](const Tensor& dx) {
      arrived(dx);
      return Tensor();
    });
  }

  void play(const LayerFunction& layer, const Tensor& x, Measured& m) {
    leaves_.reset();
    double begin = now(), end = 0, backward_begin = 0;
    int64_t base = held();
    memory_.reset_peaks();
    Tensor y = layer(entry_of(x, [&](const Tensor&) { end = now(); }));
    m.forward_seconds.push_back(now() - begin);
    m.forward_peak = peak() - base;
    m.retained = held() - base;
    Tensor exit = exit_of(y, backward_begin);
    int64_t overhead = held() - base - m.retained;
    y = {};
    m.kept_result = std::max<int64_t>(0, held() - base - overhead - (m.retained - m.boundary));
    if (!exit.requires_grad()) {  // nothing to train and no input to pass a gradient to
      m.backward_seconds.push_back(0);
      return;
    }
    autograd::backward({exit}, {}, {});
    if (end == 0) end = now();
    m.backward_seconds.push_back(end - backward_begin);
    m.backward_peak = peak() - base - overhead;
    m.skip_gradient = held();
    skip_gradient_ = {};
    m.skip_gradient -= held();
    m.gradients = held() - base - overhead;
  }

  // The stage as a region: its first run, and its replay, which stops early.
  void play_region(const LayerFunction& layer, const Tensor& x, Measured& m) {
    leaves_.reset();
    double begin = 0, backward_begin = 0;
    int64_t base = held();
    ScopeFactory around_replay = [&]() -> std::shared_ptr<void> {
      base = held();
      memory_.reset_peaks();
      begin = now();
      return {this, [&](Profiler*) {
                m.replay_seconds.push_back(now() - begin);
                m.replay_peak = peak() - base;
              }};
    };
    memory_.reset_peaks();
    Tensor y = checkpoint([&layer](const Tensor& t) { return layer(t); }, entry_of(x, [](const Tensor&) {}),
                          {.context = {.replay = around_replay}});
    m.first_run_peak = peak() - base;
    Tensor exit = exit_of(y, backward_begin);
    y = {};
    if (exit.requires_grad()) autograd::backward({exit}, {}, {});
    skip_gradient_ = {};
  }

  Tensor exit_of(const Tensor& y, double& backward_begin) {
    return ExitProbe::apply(y, [this, shape = y.shape(), dtype = y.dtype(), &backward_begin](const Tensor&) {
      return gradient_like(shape, dtype, backward_begin);
    });
  }

  void play_around(const auto& step, const Tensor& x, Measured& before, Measured& after);

  Device device_;
  Allocator& memory_;
  const ProfileOptions& options_;
  Tensor token_;  // wants a gradient, never gets one
  LeafGradients leaves_;
  Tensor skip_gradient_;  // waits for the end of its stage's backward
};

// A skip comes to the layer that takes it behind a probe, as x does, so that its gradient is made. The gradient waits, as it
// does in a step, for the stage that made the skip.
void Profiler::chain(const std::vector<ListLayer>& layers, Tensor& x, Chain& chain) {
  begin(!layers.empty(), x, chain);
  std::vector<std::pair<int64_t, Tensor>> skips;  // with the stages that made them
  std::vector<Measured> measured;
  for (size_t i = 0; i < layers.size(); ++i) {
    const ListLayer& layer = layers[i];
    const bool takes_skip = layer.takes == 2, leaves_skip = layer.gives == 2;
    check(layer.takes - takes_skip == 1 && layer.gives - leaves_skip == 1 && !(leaves_skip && i == 0) &&
              !(takes_skip && (leaves_skip || skips.empty())),
          "profile: layer ", i, " takes ", layer.takes, " and gives ", layer.gives,
          " tensors: no chain with skips");
    Tensor skip;
    if (takes_skip) {
      chain.stages[size_t(skips.back().first)].skip_to = int64_t(i);
      skip = std::move(skips.back().second);
      skips.pop_back();
    }
    if (leaves_skip) skips.emplace_back(i - 1, x);
    auto run = [&](const Tensor& in) {
      if (!skip.defined()) return layer.run({in}).back();
      return layer.run({entry_of(skip, [this](const Tensor& dx) { skip_gradient_ = dx; }), in}).back();
    };
    measured.push_back(this->measured(run, x));
    chain.stages.push_back(measured.back().stage());
  }
  for (int64_t made = 0; made < chain.size(); ++made) {  // the skip's gradient, in Note [What a step holds]
    Stage& maker = chain.stages[size_t(made)];
    if (maker.skip_to == 0) continue;
    const int64_t gradient = measured[size_t(maker.skip_to)].skip_gradient;
    for (int64_t between = made + 1; between < maker.skip_to; ++between) {
      Stage& s = chain.stages[size_t(between)];
      for (int64_t* workspace :
           {&s.workspace_forward_bytes, &s.workspace_unsaved_bytes, &s.workspace_backward_bytes})
        *workspace += gradient;
    }
    maker.workspace_backward_bytes =
        std::max(maker.workspace_backward_bytes, measured[size_t(made)].kept_result + gradient);
  }
}

// One graph, with x in the chain's place: a parameter may be used on both sides.
void Profiler::play_around(const auto& step, const Tensor& x, Measured& before, Measured& after) {
  leaves_.reset();
  int64_t base = held();
  memory_.reset_peaks();
  double begin = now(), passed = 0, backward_begin = 0;
  // Forward of what is before the chain.
  Tensor x0 = step.before();
  before.forward_seconds.push_back(now() - begin);
  before.forward_peak = peak() - base;
  before.retained = held() - base;
  // Two probes in the chain's place: what the chain would be given in forward and in backward.
  int64_t after_gradients = 0, middle = 0;
  Tensor exit = ExitProbe::apply(x0, [&, shape = x0.shape(), dtype = x0.dtype()](const Tensor&) {
    after_gradients = held() - middle;
    return gradient_like(shape, dtype, backward_begin);
  });
  x0 = {};
  bool goes_on = exit.requires_grad();
  Tensor in = EntryProbe::apply(goes_on ? exit : token_, x.detach(), [&](const Tensor&) {
    passed = now();
    after.backward_peak = peak() - middle;
    return goes_on ? Tensor::zeros({1}, DType::f32, device_) : Tensor();
  });
  exit = {};
  // Forward of what is after it, to the loss.
  middle = held();
  memory_.reset_peaks();
  begin = now();
  Tensor loss = step.after(in);
  in = {};
  after.forward_seconds.push_back(now() - begin);
  after.forward_peak = peak() - middle;
  after.retained = held() - middle;
  after.boundary = bytes_like(loss);
  // Backward of both: the probes note the moment and the peak between them.
  memory_.reset_peaks();
  begin = now();
  autograd::backward({loss}, {}, {});
  double end = now();
  after.backward_seconds.push_back(passed - begin);
  before.backward_seconds.push_back(goes_on ? end - backward_begin : 0);
  if (goes_on) before.backward_peak = peak() - base - after_gradients;
  after.gradients = goes_on ? after_gradients : held() - middle;
  before.gradients = held() - base - after.gradients - after.boundary;
}

Chain profile_whole_step(const auto& step, const ProfileOptions& options) {
  DryRun dry_run;
  Tensor x;
  {
    NoGrad guard;
    x = step.before();
  }
  Chain chain;
  Profiler profiler(x.device(), options);
  profiler.chain(step.layers, x, chain);
  profiler.around(step, x, chain);
  return chain;
}

}  // namespace

Chain profile_chain(const std::vector<LayerFunction>& layers, const Tensor& x,
                    const ProfileOptions& options) {
  DryRun dry_run;
  Chain chain;
  Profiler profiler(x.device(), options);
  Tensor next = x.detach();
  profiler.chain(layers, next, chain);
  return chain;
}

Chain profile_step(const TrainingStep& step, const ProfileOptions& options) {
  return profile_whole_step(step, options);
}
Chain profile_step(const ListTrainingStep& step, const ProfileOptions& options) {
  return profile_whole_step(step, options);
}

}  // namespace reprise::recompute
