#include "reprise/apps/scale/schedule.h"

#include <algorithm>

namespace reprise::apps::scale {
namespace {

class Simulation {
 public:
  Simulation(const StepProfile& profile, const TrainingPlan& plan, const Collectives& collectives, int ranks,
             double slowdown, Counted counted)
      : profile_(profile),
        plan_(plan),
        collectives_(collectives),
        share_(rank_share(plan, ranks)),
        ranks_(ranks),
        slowdown_(slowdown),
        counted_(counted) {}

  StepTimes run() {
    const bool shares_weights = plan_.zero >= 3 && ranks_ > 1;
    for (int64_t i = 0; i < share_.micro_batches; ++i) {
      const bool is_last = i + 1 == share_.micro_batches;
      if (shares_weights)
        sharded_pass(is_last);
      else
        whole_pass(is_last);
    }
    now_ = std::max(now_, sent_);
    compute(profile_.update_seconds / (plan_.zero >= 1 ? ranks_ : 1));
    if (plan_.zero == 1 || plan_.zero == 2) gather_weights();
    times_.step = now_;
    return times_;
  }

 private:
  // Forward and backward of one micro-batch; the last one sends buckets as they become ready.
  void whole_pass(bool is_last) {
    for (const Layer& layer : profile_.layers) compute(layer.forward_seconds);
    std::vector<double> done(profile_.layers.size());
    for (size_t i = profile_.layers.size(); i-- > 0;) {
      compute_backward(profile_.layers[i]);
      done[i] = now_;
    }
    if (!is_last || ranks_ == 1) return;
    for (const SentBucket& bucket : sent_buckets(profile_.layers, plan_.buckets)) {
      const double bytes = double(bucket.numel) * plan_.wire_bytes;
      const double seconds = of(plan_.zero >= 2 ? collectives_.reduce_scatter(bytes, share_.nodes)
                                                : collectives_.all_reduce(bytes, share_.nodes));
      send(done[bucket.lowest_layer], seconds);
      times_.last_bucket = seconds;
    }
  }

  void gather_weights() {
    if (ranks_ == 1) return;
    sent_ = now_;
    for (const SentBucket& bucket : sent_buckets(profile_.layers, plan_.buckets))
      send(now_, of(collectives_.all_gather(double(bucket.numel) * plan_.weight_bytes)));
    now_ = sent_;
  }

  // See Note [Two streams]. The last layer's weights stay from forward to backward.
  void sharded_pass(bool is_last) {
    const size_t n = profile_.layers.size();
    double gathered = gather(0, now_);
    for (size_t i = 0; i < n; ++i) {
      now_ = std::max(now_, gathered);
      if (i + 1 < n) gathered = gather(i + 1, now_);
      compute(profile_.layers[i].forward_seconds);
    }
    for (size_t i = n; i-- > 0;) {
      now_ = std::max(now_, gathered);
      if (i > 0) gathered = gather(i - 1, now_);
      compute_backward(profile_.layers[i]);
      if (is_last) scatter(i);
    }
  }

  double gather(size_t layer, double ready) {
    return send(ready,
                of(collectives_.all_gather(double(profile_.layers[layer].numel()) * plan_.compute_bytes)));
  }

  void scatter(size_t layer) {
    const double bytes = double(profile_.layers[layer].numel()) * plan_.wire_bytes;
    times_.last_bucket = of(collectives_.reduce_scatter(bytes, share_.nodes));
    send(now_, times_.last_bucket);
  }

  void compute(double seconds) {
    now_ += seconds * slowdown_;
    times_.compute += seconds * slowdown_;
  }

  void compute_backward(const Layer& layer) {
    compute(layer.backward_seconds + (plan_.recomputes && layer.is_block ? layer.forward_seconds : 0));
  }

  // The end of what the communication stream does next.
  double send(double ready, double seconds) { return sent_ = std::max(sent_, ready) + seconds; }

  double of(const Cost& cost) const {
    return (counted_.latency ? cost.latency : 0) + (counted_.transfer ? cost.transfer : 0);
  }

  const StepProfile& profile_;
  const TrainingPlan& plan_;
  const Collectives& collectives_;
  const RankShare share_;
  const int ranks_;
  const double slowdown_;
  const Counted counted_;
  double now_ = 0, sent_ = 0;  // when the streams are done with what they have been given
  StepTimes times_;
};

}  // namespace

StepTimes simulate_step(const StepProfile& profile, const TrainingPlan& plan, const Collectives& collectives,
                        int ranks, double slowdown, Counted counted) {
  return Simulation(profile, plan, collectives, ranks, slowdown, counted).run();
}

}  // namespace reprise::apps::scale
