// Logits whose rows lie apart, as those of an odd vocabulary do on a CUDA device: where they begin, that nothing of what lies
// between them is read, that their gradient lies alike.
// also by cuBLASLt
#include "reprise/autograd/ops/padded_rows.h"

#include "reprise/autograd/ops.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/autograd/recompute/offload/offload_saved.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::is_close;
using testing::OpCase;
using testing::same_bits;
using testing::test_device;
using testing::unit_roundoff;

constexpr int64_t kBatch = 2, kTokens = 5, kWidth = 16, kOdd = 1031;

Tensor numbers(const Shape& shape, DType dtype, uint64_t seed) {
  Generator generator(seed);
  return randn(shape, DType::f32, {}, &generator).to(dtype).to(test_device());
}

/// The last layer of a language model and its loss.
struct Head {
  Tensor x, weight, bias, targets;

  explicit Head(DType dtype, int64_t vocabulary = kOdd)
      : x(numbers({kBatch, kTokens, kWidth}, dtype, 1).set_requires_grad()),
        weight((numbers({vocabulary, kWidth}, dtype, 2)).set_requires_grad()),
        bias(numbers({vocabulary}, dtype, 3).set_requires_grad()),
        targets(Tensor::from<int64_t>({7, 0, -100, 1030, 2, 8, 512, -100, 1024, 3}, {kBatch, kTokens})
                    .to(test_device())) {}
  Tensor logits() const { return linear(x, weight, bias); }
  TensorList gradients() const { return {x.grad(), weight.grad(), bias.grad()}; }
};

/// Elements from one row of a result of `linear` to the next.
int64_t distance_of(int64_t width, DType dtype) {
  const int64_t size = int64_t(size_of(dtype));
  if (!test_device().is_cuda() || width <= 1024 || width * size % 16 == 0) return width;
  int64_t distance = width;
  while (distance * size % 128 != 0) ++distance;
  return distance;
}

TEST(PaddedRows, BeginWhereWideAccessesMayOnCuda) {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (int64_t width : {int64_t(7), int64_t(1023), int64_t(1025), int64_t(1028), kOdd, int64_t(1032)}) {
      SCOPED_TRACE(::testing::Message() << dtype << ", " << width);
      const Tensor y = linear(numbers({2, 3, 4}, dtype, 1), numbers({width, 4}, dtype, 2));
      const int64_t distance = distance_of(width, dtype);
      EXPECT_EQ(y.shape(), (Shape{2, 3, width}));
      EXPECT_EQ(y.strides(), (Strides{3 * distance, distance, 1}));
      EXPECT_TRUE(same_bits(y.contiguous().select(1, 2), y.select(1, 2)));
    }
}

TEST(PaddedRows, OfAnotherDtypeThanTheProductsLieApartToo) {
  const Tensor x = numbers({3, 4}, DType::f32, 1), weight = numbers({kOdd, 4}, DType::f32, 2);
  const Tensor y = linear(x, weight, {}, {.out = DType::bf16});
  EXPECT_EQ(y.strides()[0], distance_of(kOdd, DType::bf16));
  EXPECT_TRUE(same_bits(y, linear(x, weight).to(DType::bf16)));
}

TEST(PaddedRows, OfLogitsPassEveryCheckOfAnOp) {
  auto targets = [](int64_t count, int64_t classes) {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(i % 4 == 3 ? -100 : i * 577 % classes);
    return Tensor::from(values, {count});
  };
  for (Reduction reduction : {Reduction::mean, Reduction::none})
    check_op(OpCase{.name = "head and loss",
                    .inputs = {{{4, 3}}, {{5, 3}}, {.shape = {4}, .values = targets(4, 5)}},
                    .fn =
                        [=](const TensorList& in) {
                          return cross_entropy(linear(in[0], in[1]), in[2], {.reduction = reduction});
                        },
                    .composite =
                        [=](const TensorList& in) {
                          return composite::cross_entropy(composite::linear(in[0], in[1], {}, {}), in[2],
                                                          {.reduction = reduction});
                        },
                    .roundings = 32,
                    .large_inputs = {{{9, 8}}, {{kOdd, 8}}, {.shape = {9}, .values = targets(9, kOdd)}}});
}

// The same numbers without gaps, so that another path reads and writes them; roundings of their sums aside.
TEST(PaddedRows, GiveTheGradientsOfContiguousLogits) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (Reduction reduction : {Reduction::sum, Reduction::none})
      for (double smoothing : {0.0, 0.1}) {
        SCOPED_TRACE(::testing::Message() << dtype << ", smoothing " << smoothing);
        auto gradients = [&](bool contiguous) {
          Head head(dtype);
          Tensor logits = contiguous ? head.logits().contiguous() : head.logits();
          Tensor losses = cross_entropy(std::move(logits), head.targets,
                                        {.label_smoothing = smoothing, .reduction = reduction});
          if (reduction == Reduction::none)
            losses = sum(losses * numbers({kBatch, kTokens}, losses.dtype(), 9));
          losses.backward();
          return head.gradients();
        };
        const TensorList got = gradients(false), want = gradients(true);
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_TRUE(is_close(got[i], want[i], 8 * unit_roundoff(dtype))) << "gradient " << i;
      }
}

TEST(PaddedRows, AgainstProbabilitiesGiveTheGradientsOfContiguousLogits) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    auto gradients = [&](bool contiguous) {
      Head head(dtype);
      const Tensor wanted = softmax(numbers({kBatch, kTokens, kOdd}, DType::f32, 8));
      Tensor logits = contiguous ? head.logits().contiguous() : head.logits();
      (cross_entropy(std::move(logits), wanted, {.reduction = Reduction::sum}) * 2.0).backward();
      return head.gradients();
    };
    const TensorList got = gradients(false), want = gradients(true);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(is_close(got[i], want[i], 8 * unit_roundoff(dtype))) << dtype << ", gradient " << i;
  }
}

/// How the rows of the gradient lie that the logits get.
Strides strides_of_gradient(const Head& head, bool given, double upstream, bool retains) {
  Tensor logits = head.logits(), kept;
  if (!given) kept = logits;
  Strides strides;
  logits.register_hook([&](const Tensor& gradient) {
    strides = gradient.strides();
    return Tensor();
  });
  const Tensor loss = cross_entropy(std::move(logits), head.targets);
  (loss * upstream).backward({}, retains);
  return strides;
}

TEST(PaddedRows, OfTheGradientLieAsThoseOfTheLogits) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Head head(dtype);
    for (bool given : {true, false})
      for (double upstream : {1.0, 3.0})
        for (bool retains : {false, true})
          EXPECT_EQ(strides_of_gradient(head, given, upstream, retains), head.logits().strides())
              << dtype << ", given away " << given << ", upstream " << upstream << ", retained " << retains;
  }
}

// Kernels add in an order that depends on where rows begin, so the gradient must begin alike wherever it is written.
TEST(PaddedRows, OfLogitsThatAreGivenAwayKeepEveryBit) {
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> cases[] = {
      {"all", [](const Tensor& x) { return x * 1.0; }},
      {"of a linear layer",
       [](const Tensor& x) {
         return linear(x, numbers({kOdd, kOdd + 8}, x.dtype(), 5));
       }},
      {"from the second row on", [](const Tensor& x) { return slice(x * 1.0, 0, 1, 9); }},
      {"from the second column on", [](const Tensor& x) { return slice(x * 1.0, 1, 1, kOdd + 1); }},
      {"from the eighth column on", [](const Tensor& x) { return slice(x * 1.0, 1, 8, kOdd + 8); }}};
  for (DType dtype : {DType::f32, DType::bf16})
    for (const auto& [name, view] : cases) {
      auto gradient = [&, dtype = dtype, &view = view](bool given) {
        Tensor x = numbers({9, kOdd + 8}, dtype, 4).set_requires_grad();
        Tensor logits = view(x), kept = given ? Tensor() : logits;
        const Tensor targets = full({logits.size(0)}, 77.0, DType::i64, x.device());
        cross_entropy(std::move(logits), targets).backward();
        return x.grad();
      };
      EXPECT_TRUE(same_bits(gradient(true), gradient(false))) << name << ", " << dtype;
    }
}

TEST(PaddedRows, OfLogitsThatAreRecomputedOrOffloadedKeepEveryBit) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    auto gradients = [&](const std::function<Tensor(const Head&)>& loss) {
      Head head(dtype);
      loss(head).backward();
      return head.gradients();
    };
    auto plain = [](const Head& head) { return cross_entropy(head.logits(), head.targets) * 2.0; };
    const TensorList want = gradients(plain);
    auto expect_same = [&](const char* what, const TensorList& got) {
      EXPECT_TRUE(same_bits(got, want)) << what << ", " << dtype;
    };
    for (CheckpointMode mode : {CheckpointMode::non_reentrant, CheckpointMode::reentrant}) {
      const CheckpointOptions options{.mode = mode};
      expect_same("recomputed logits", gradients([&](const Head& head) {
                    auto logits = [&](const Tensor& x) { return linear(x, head.weight, head.bias); };
                    return cross_entropy(checkpoint(logits, head.x, options), head.targets) * 2.0;
                  }));
      expect_same("recomputed loss", gradients([&](const Head& head) {
                    auto loss = [&](const Tensor& x) {
                      return cross_entropy(linear(x, head.weight, head.bias), head.targets) * 2.0;
                    };
                    return checkpoint(loss, head.x, options);
                  }));
    }
    expect_same("offloaded", gradients([&](const Head& head) {
                  recompute::OffloadSaved saved;
                  return plain(head);
                }));
  }
}

}  // namespace
}  // namespace reprise
