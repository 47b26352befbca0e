// A transformer block with dropout everywhere, repeated: each block under a checkpoint keeps every bit.
// also by cuBLASLt
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise {
namespace {

using testing::kModes;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;

constexpr int64_t kBatch = 2, kTime = 9, kWidth = 24, kHeads = 3, kBlocks = 3;

struct Block {
  Tensor norm1, qkv, out, norm2, up, up_bias, down, down_bias;

  Block(DType dtype, uint64_t seed) {
    auto weight = [&](const Shape& shape) {
      return (numbers(shape, ++seed) * 0.2).to(dtype).set_requires_grad();
    };
    NoGrad guard;
    norm1 = weight({kWidth}), norm2 = weight({kWidth});
    qkv = weight({3 * kWidth, kWidth}), out = weight({kWidth, kWidth});
    up = weight({4 * kWidth, kWidth}), up_bias = weight({4 * kWidth});
    down = weight({kWidth, 4 * kWidth}), down_bias = weight({kWidth});
  }
  TensorList parameters() const { return {norm1, qkv, out, norm2, up, up_bias, down, down_bias}; }

  Tensor forward(const Tensor& x) const {  // (B, T, C)
    TensorList parts = split(linear(layer_norm(x, norm1, {}), qkv), kWidth, 2);
    for (Tensor& part : parts)
      part = part.reshape({kBatch, kTime, kHeads, kWidth / kHeads}).transpose(1, 2);  // (B, H, T, D)
    Tensor mixed = attention(parts[0], parts[1], parts[2], {.causal = true, .dropout = 0.2}).transpose(1, 2);
    Tensor h = x + dropout(linear(mixed.reshape({kBatch, kTime, kWidth}), out), 0.1);
    return dropout(mlp(layer_norm(h, norm2, {}), up, up_bias, down, down_bias), 0.1) + h;
  }
};

using Step = std::function<Tensor(const Block&, const Tensor&)>;

// Two micro-batches, so that gradients are added to gradients.
TensorList train(DType dtype, const Step& step) {
  std::vector<Block> blocks;
  for (int i = 0; i < kBlocks; ++i) blocks.emplace_back(dtype, uint64_t(100 * i));
  manual_seed(5);
  TensorList results;
  for (uint64_t micro = 0; micro < 2; ++micro) {
    Tensor x = numbers({kBatch, kTime, kWidth}, 7 + micro).to(dtype).set_requires_grad(), h = x;
    for (const Block& block : blocks) h = step(block, h);
    Tensor loss = sum(square(h));
    loss.backward();
    results.push_back(loss.detach());
    results.push_back(x.grad());
  }
  for (const Block& block : blocks)
    for (const Tensor& parameter : block.parameters()) results.push_back(parameter.grad());
  return results;
}

TEST(CheckpointedBlocks, KeepEveryBitOfATransformer) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    TensorList want = train(dtype, [](const Block& block, const Tensor& x) { return block.forward(x); });
    for (CheckpointMode mode : kModes) {
      SCOPED_TRACE(testing::name_of(mode));
      NoLeaks guard;
      TensorList got = train(dtype, [&](const Block& block, const Tensor& x) {
        return checkpoint([&](const Tensor& in) { return block.forward(in); }, x, {.mode = mode});
      });
      EXPECT_TRUE(same_bits(got, want));
    }
  }
}

// Decides at random, the same for every operation each time that it is asked in the same order.
Policy random_policy(uint64_t seed) {
  auto generator = std::make_shared<Generator>(seed);
  return Policy([generator](const PolicyOp&) {
    Generator::State at = generator->next();
    return philox_block(at.seed, at.offset, 0)[0] % 2 ? Decision::save : Decision::recompute;
  });
}

TEST(CheckpointedBlocks, KeepEveryBitWhateverAPolicySaves) {
  TensorList want = train(DType::f32, [](const Block& block, const Tensor& x) { return block.forward(x); });
  std::vector<std::pair<std::string, Policy>> policies = {
      {"cheap", recompute_cheap()}, {"matmuls", save_matmuls()}, {"attention", save_attention()}};
  for (uint64_t seed = 1; seed <= 12; ++seed)
    policies.emplace_back("random " + std::to_string(seed), random_policy(seed));
  for (const auto& [name, policy] : policies) {
    SCOPED_TRACE(name);
    NoLeaks guard;
    TensorList got = train(DType::f32, [&](const Block& block, const Tensor& x) {
      return checkpoint([&](const Tensor& in) { return block.forward(in); }, x, {.policy = policy});
    });
    EXPECT_TRUE(same_bits(got, want));
  }
}

TEST(CheckpointedBlocks, HoldLessUntilBackward) {
  auto held = [](const Step& step) {
    Block block(DType::f32, 1);
    Tensor x = numbers({kBatch, kTime, kWidth}).set_requires_grad();
    size_t before = allocator(testing::test_device()).stats().allocated;
    Tensor y = step(block, x);
    return allocator(testing::test_device()).stats().allocated - before;
  };
  size_t plain = held([](const Block& block, const Tensor& x) { return block.forward(x); });
  for (CheckpointMode mode : kModes) {
    size_t kept = held([&](const Block& block, const Tensor& x) {
      return checkpoint([&](const Tensor& in) { return block.forward(in); }, x, {.mode = mode});
    });
    EXPECT_LT(kept * 8, plain);
  }
}

}  // namespace
}  // namespace reprise
