#include "reprise/apps/vit/attention_map.h"

#include <cmath>
#include <functional>
#include <utility>

#include "reprise/apps/common/training_run.h"
#include "reprise/autograd/ops.h"
#include "reprise/nn/eval_scope.h"

namespace reprise::apps::vit {
namespace {

// The mean of the heads' probabilities, (B, T, T): rows are queries. Within the block's call, since ranks may share its weights.
Tensor attention_of(nn::TransformerBlock& block, const Tensor& x) {
  const TensorList parts = block.attn.queries_keys_values(block.norm1(x));  // (B, heads, T, head_dim)
  Tensor scores = matmul(parts[0], transpose(parts[1], 2, 3)) * (1 / std::sqrt(double(parts[0].size(3))));
  return mean(softmax(scores), {1});
}

Tensor identity(int64_t size, Device device) { return one_hot(arange(size, DType::i64, device), size); }

// Removes a hook at its end, whatever was thrown: what it writes to is gone then.
class HookScope {
 public:
  explicit HookScope(std::function<void()> remove) : remove_(std::move(remove)) {}
  ~HookScope() { remove_(); }
  HookScope(const HookScope&) = delete;

 private:
  std::function<void()> remove_;
};

}  // namespace

AttentionMaps attention_maps(nn::Vit& model, const Tensor& images) {
  nn::EvalScope scope(model);
  Tensor x = model.embed(images);  // (B, T, width)
  Tensor attention, rollout;       // (B, T, T)
  for (int64_t i = 0; i < model.blocks.size(); ++i) {
    auto& block = model.blocks.at<nn::TransformerBlock>(std::to_string(i));
    {
      const HookScope looks(block.register_forward_pre_hook([&](const Tensor& given) {
        attention = attention_of(block, given);
        return Tensor();
      }));
      x = block(x);
    }
    Tensor mixed = (attention + identity(x.size(1), x.device())) * 0.5;
    rollout = rollout.defined() ? matmul(mixed, rollout) : mixed;
  }
  const int64_t prefix = model.prefix_tokens();
  auto of_patches = [&](const Tensor& weights) {
    Tensor query = model.options().class_token
                       ? select(weights, 1, 0)
                       : mean(slice(weights, 1, prefix, weights.size(1)), {1});  // (B, T)
    return slice(query, 1, prefix, query.size(1));
  };
  return {of_patches(attention), of_patches(rollout)};
}

}  // namespace reprise::apps::vit
