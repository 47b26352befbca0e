// A model whose weights are cut between ranks: one of several pieces, small ones, one used in odd micro-batches alone, one
// never; and a step of it, with an optimizer of any kind.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/distributed/sharded/sharded_adamw.h"
#include "reprise/distributed/sharded/sharded_sgd.h"
#include "reprise/distributed/sharded/whole_weights.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/optim/grad_scaler.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/distributed/ranks.h"

namespace reprise::testing {

struct WideNet : nn::Module {
  static constexpr int64_t in = 300, width = 200;  // 60,000 weights are four pieces
  nn::Linear wide{in, width}, last{width, 5}, odd{5, 5}, never{3, 3};

  WideNet() {
    register_module("wide", wide);
    register_module("last", last);
    register_module("odd", odd);
    register_module("never", never);
  }
  /// Of micro-batch g of a step.
  Tensor loss(int step, int64_t g) {
    manual_seed(uint64_t(1000 * step) + uint64_t(g));
    const Tensor y = last(relu(wide(randn({3, in}, DType::f32, wide.weight.device()))));
    return square((g % 2 ? odd(y) : y).to(DType::f32)).mean();
  }
};

/// How a model is trained.
struct ShardedCase {
  std::string name;
  DType compute = DType::f32;  ///< of autocast
  bool is_pure = false;        ///< weights are of it too
  optim::AdamWOptions adamw{};
  double scale = 0;                        ///< the loss's first one; 0: none
  std::optional<optim::SgdOptions> sgd{};  ///< in the place of AdamW
};

inline std::vector<ShardedCase> sharded_cases() {
  const DType bf16 = DType::bf16, f16 = DType::f16;
  using optim::Master;
  return {
      {"f32", DType::f32, false, {}, 0},
      {"u8 moments", DType::f32, false, {.moments = DType::u8, .seed = 5}, 0},
      {"bf16", bf16, false, {}, 0},
      {"f16 with a scale", f16, false, {}, 1024},
      {"pure bf16", bf16, true, {.moments = bf16, .seed = 6}, 0},
      {"pure bf16, split", bf16, true, {.master = Master::split}, 0},
      {"pure bf16, stochastic", bf16, true, {.master = Master::stochastic, .moments = DType::u8}, 0},
      {"pure f16 with a scale", f16, true, {}, 1024},
      {"sgd", DType::f32, false, {}, 0, optim::SgdOptions{}},
      {"sgd with momentum", bf16, false, {}, 0, optim::SgdOptions{.momentum = 0.9}},
      {"sgd, nesterov, pure bf16", bf16, true, {}, 0, optim::SgdOptions{.momentum = 0.9, .nesterov = true}},
      {"sgd, pure f16 with a scale", f16, true, {}, 1024, optim::SgdOptions{.momentum = 0.5}},
      {"sgd, pure bf16, split",
       bf16,
       true,
       {},
       0,
       optim::SgdOptions{.momentum = 0.9, .master = Master::split}},
      {"sgd, pure bf16, stochastic, with a scale",
       bf16,
       true,
       {},
       1024,
       optim::SgdOptions{.master = Master::stochastic, .seed = 7}}};
}

/// Of a test: its letters and digits.
inline std::string name_of_case(const ::testing::TestParamInfo<ShardedCase>& of) {
  std::string name;
  for (char c : of.param.name)
    if (std::isalnum(static_cast<unsigned char>(c))) name += c;
  return name;
}

/// A model, what trains it, and a record of it that has no rank in it.
class ShardedRun {
 public:
  /// On the group's device; `stage` -1: optim::AdamW or Sgd.
  ShardedRun(distributed::ProcessGroup& group, const ShardedCase& c, int stage,
             const distributed::BucketOptions& buckets)
      : case_(c), net_(made(c, group.device())), parallel_(*net_, group, buckets) {
    auto groups = optim::decay_matrices(*net_, 1e-2, 0.1);
    groups[1].lr_scale = 3;
    if (stage < 0 && c.sgd)
      optimizer_ = std::make_unique<optim::Sgd>(std::move(groups), *c.sgd);
    else if (stage < 0)
      optimizer_ = std::make_unique<optim::AdamW>(std::move(groups), c.adamw);
    else if (c.sgd)
      optimizer_ = std::make_unique<distributed::ShardedSgd>(
          parallel_, std::move(groups),
          distributed::ShardedSgdOptions{.stage = stage, .sgd = *c.sgd, .blocks = blocks(stage)});
    else
      optimizer_ = std::make_unique<distributed::ShardedAdamW>(
          parallel_, std::move(groups),
          distributed::ShardedAdamWOptions{.stage = stage, .adamw = c.adamw, .blocks = blocks(stage)});
    if (c.scale > 0) scaler_.emplace(group.device(), optim::GradScalerOptions{.init_scale = c.scale});
  }

  optim::Optimizer& optimizer() { return *optimizer_; }
  WideNet& net() { return *net_; }
  distributed::DataParallel& parallel() { return parallel_; }

  /// The norm of the gradients and all weights after the step. Without finite gradients nothing is updated.
  std::string step(int step, int64_t micro_batches, bool is_finite = true) {
    optimizer_->zero_grad();
    backward(step, micro_batches, is_finite);
    TextStream lines;
    lines << "step " << step << " norm ";
    if (scaler_) {
      scaler_->step(*optimizer_, {.clip = 0.5});
      scaler_->update();
      const optim::GradScaler::Stats stats = scaler_->read();
      lines << stats.norm << " found " << stats.found << " scale " << stats.scale;
    } else {
      auto* sharded = dynamic_cast<distributed::SharedOptimizer*>(optimizer_.get());
      const double norm = sharded ? sharded->grad_norm() : optim::grad_norm(net_->parameters());
      lines << checksum(Tensor::from(std::vector<double>{norm}, {1}));
      optimizer_->step(optim::clip_scale(norm, 0.5));
    }
    const distributed::WholeWeights whole(parallel_);
    for (const auto& [name, x] : net_->named_parameters()) lines << '\n' << name << ' ' << checksum(x);
    return lines.str() + '\n';
  }

  void backward(int step, int64_t micro_batches, bool is_finite) {
    for (int64_t g : parallel_.share(micro_batches)) {
      std::optional<amp::Autocast> autocast;
      if (case_.compute != DType::f32) autocast.emplace(parallel_.group().device(), case_.compute);
      Tensor loss = net_->loss(step, g);
      autocast.reset();
      if (!is_finite && g == micro_batches - 1) loss = loss * 1e38 * 1e38;
      parallel_.backward(scaler_ ? scaler_->scale(loss) : loss, g);
    }
  }

  /// Of the whole state, which all ranks ask for; empty on all but rank 0.
  std::string state() {
    TextStream lines;
    for (const auto& [name, x] : optimizer_->state_dict())
      if (parallel_.group().rank() == 0)
        lines << name << ' ' << x.dtype() << x.shape() << ' ' << checksum(x) << '\n';
    return lines.str();
  }

 private:
  static std::unique_ptr<WideNet> made(const ShardedCase& c, Device device) {
    manual_seed(3);
    auto net = std::make_unique<WideNet>();
    net->to(device);
    if (!c.is_pure) return net;
    nn::to_precision(*net, c.compute);
    for (const Tensor& x : net->parameters()) x.set_grad_dtype(DType::f32);
    return net;
  }

  std::vector<nn::Layer*> blocks(int stage) {
    if (stage < 3) return {};
    return {&net_->wide, &net_->last};
  }

  const ShardedCase& case_;
  std::unique_ptr<WideNet> net_;
  distributed::DataParallel parallel_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::GradScaler> scaler_;
};

}  // namespace reprise::testing
