// A Vit under autocast runs no cast.
#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/nn/models/vit.h"
#include "reprise/tests/nn/autocast/casts.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::test_device;

void expect_none(const nn::VitOptions& options, DType dtype, const char* strategy) {
  const Tensor images = rand({2, 1, 8, 8}, DType::f32, test_device());
  const Tensor labels = Tensor::from<int64_t>({1, 3}, {2}).to(test_device());
  nn::Vit model(options, test_device());
  model.blocks.set_recompute(parse_strategy(strategy));
  testing::expect_no_cast([&] { return cross_entropy(model(images), labels); }, dtype,
                          "pool " + std::to_string(int(options.pool)) + ", dropout " +
                              std::to_string(options.dropout) + ", " + strategy);
}

TEST(VitAutocast, RunsNoCast) {
  for (nn::Pool pool : {nn::Pool::token, nn::Pool::avg})
    for (DType dtype : {DType::bf16, DType::f16})
      for (double dropout : {0.0, 0.1})
        for (const char* strategy : {"none", "full", "selective"}) {
          nn::VitOptions options{.image = 8,
                                 .patch = 4,
                                 .channels = 1,
                                 .classes = 5,
                                 .width = 16,
                                 .layers = 2,
                                 .heads = 2,
                                 .pool = pool,
                                 .dropout = dropout,
                                 .drop_path = 0.1};
          if (dropout == 0) options.layer_scale = 0.1;
          expect_none(options, dtype, strategy);
        }
}

TEST(VitAutocast, RunsNoCastBehindRotaryPositions) {
  for (bool qk_norm : {false, true})
    for (DType dtype : {DType::bf16, DType::f16})
      for (const char* strategy : {"none", "full", "selective"})
        expect_none({.image = 8,
                     .patch = 4,
                     .channels = 1,
                     .classes = 5,
                     .width = 16,
                     .layers = 2,
                     .heads = 2,
                     .registers = 1,
                     .qk_norm = qk_norm,
                     .rope = true},
                    dtype, strategy);
}

}  // namespace
}  // namespace reprise
