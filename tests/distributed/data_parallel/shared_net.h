// A small model with all that makes gradients hard to share: a tied table, a block used twice, one used in odd micro-batches
// alone, one never, and dropout.
#pragma once

#include "reprise/autograd/ops.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/nn/layers.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/transformers/transformer_block.h"
#include "reprise/tests/nn/small_models.h"

namespace reprise::testing {

/// Which checkpoints the blocks are in: none, each of a mode, or both modes, one within the other.
enum class Checkpoints { none, non_reentrant, reentrant, reentrant_inside, reentrant_outside };
inline constexpr Checkpoints kCheckpoints[] = {Checkpoints::none, Checkpoints::non_reentrant,
                                               Checkpoints::reentrant, Checkpoints::reentrant_inside,
                                               Checkpoints::reentrant_outside};

struct SharedNet : nn::Module {
  static constexpr int64_t vocab = 17, width = 8;
  nn::Embedding table{vocab, width};
  nn::TransformerBlock twice{width, 2, {.dropout = 0.2}}, once{width, 2, {.drop_path = 0.3}}, odd{width, 2},
      never{width, 2};
  nn::Linear frozen{width, width};

  SharedNet() {
    register_module("table", table);
    register_module("twice", twice);
    register_module("once", once);
    register_module("odd", odd);
    register_module("never", never);
    register_module("frozen", frozen);
    frozen.freeze();
  }

  /// Of micro-batch g of a step: the rows and the random state depend on these alone.
  Tensor loss(int step, int64_t g, Checkpoints checkpoints) {
    using Mode = recompute::CheckpointMode;
    const uint64_t seed = uint64_t(1000 * step) + uint64_t(g);
    manual_seed(seed);
    auto blocks = [this, g](const Tensor& x) {
      Tensor y = twice.forward(once.forward(twice.forward(x)));
      return linear(g % 2 ? odd.forward(y) : y, table.weight);  // the table, which is used outside too
    };
    auto in = [](auto body, Mode mode) {
      return [body, mode](const Tensor& x) { return recompute::checkpoint(body, x, {.mode = mode}); };
    };
    Tensor x = frozen.forward(table.forward(random_tokens({2, 5}, vocab, seed)));
    switch (checkpoints) {
      case Checkpoints::none:
        x = blocks(x);
        break;
      case Checkpoints::non_reentrant:
        x = in(blocks, Mode::non_reentrant)(x);
        break;
      case Checkpoints::reentrant:
        x = in(blocks, Mode::reentrant)(x);
        break;
      case Checkpoints::reentrant_inside:
        x = in(in(blocks, Mode::reentrant), Mode::non_reentrant)(x);
        break;
      case Checkpoints::reentrant_outside:
        x = in(in(blocks, Mode::non_reentrant), Mode::reentrant)(x);
        break;
    }
    return cross_entropy(x, random_tokens({2, 5}, vocab, seed + 500));
  }
};

}  // namespace reprise::testing
