// BlockStack: the blocks of a model, one after the other, and how they are recomputed in training.
#pragma once

#include "reprise/nn/layers.h"
#include "reprise/nn/recompute_setting.h"

namespace reprise::nn {

/// What a model tells its stack: a name, and how a training step goes before and behind the blocks.
struct BlockStackOptions {
  std::string name = "blocks";  ///< messages and accounts call block 3 "blocks.3"
  bool alike = false;           ///< all blocks cost the same: the planner measures one
  /// Makes the first block's input from what the stack is called with; empty: that is it.
  std::function<Tensor(const Tensor& input)> before{};
  /// Makes the loss that a training step ends with, for the planner; empty: the sum of the output.
  std::function<Tensor(const Tensor& x, const Tensor& input)> after{};
  const Module* model = nullptr;  ///< whose parameters a step updates; null: the stack itself
};

/// A Sequential whose blocks may run as checkpointed regions, in training mode with recording on; else there
/// are no regions and nothing to pay. No bit depends on it. The graph owns the blocks too, so the stack may
/// go before backward.
///
///   rp::nn::BlockStack net;
///   for (int i = 0; i < 9; ++i) net.add<rp::nn::TransformerBlock>(64, 4);
///   net.set_recompute(rp::parse_strategy("every:3"));
///   rp::Tensor y = net(x);
///
/// A model that gives `before` and `after` can be planned: `profile`, `plan` and the strategy `auto` then
/// count the whole training step.
class BlockStack : public Sequential, public RecomputeSetting {
 public:
  /// Without blocks: `add` them. Nothing is recomputed until `set_recompute` or `plan` says so.
  explicit BlockStack(BlockStackOptions options = {})
      : RecomputeSetting("BlockStack"), options_(std::move(options)) {}
  /// The last block's output. Error if blocks were added after a plan was set.
  Tensor forward(const Tensor& input) override;

  int64_t size() const override { return Sequential::size(); }  ///< how many blocks it has

  /// Each block as a function that owns it.
  std::vector<recompute::LayerFunction> functions() const;

 private:
  recompute::Chain measured(const Tensor& given, const recompute::ProfileOptions& options) override;

  BlockStackOptions options_;
};

}  // namespace reprise::nn
