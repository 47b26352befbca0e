// Functions in place that are kernels write into the memory that is there: what they take of memory, their bits, and what
// they read of what they write.
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/elementwise/pointwise.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::same_bits;
using testing::test_device;

struct Function {
  const char* name;
  std::function<void(const Tensor& x, const Tensor& other)> change;
  std::function<Tensor(const Tensor& x, const Tensor& other)> twin;
  bool takes_integers = false, is_wide = false;
};

const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      {"abs_", [](const Tensor& x, const Tensor&) { x.abs_(); },
       [](const Tensor& x, const Tensor&) { return abs(x); }, true},
      {"exp_", [](const Tensor& x, const Tensor&) { x.exp_(); },
       [](const Tensor& x, const Tensor&) { return exp(x); }},
      {"log_", [](const Tensor& x, const Tensor&) { x.log_(); },
       [](const Tensor& x, const Tensor&) { return log(x); }},
      {"neg_", [](const Tensor& x, const Tensor&) { x.neg_(); },
       [](const Tensor& x, const Tensor&) { return -x; }, true},
      {"sigmoid_", [](const Tensor& x, const Tensor&) { x.sigmoid_(); },
       [](const Tensor& x, const Tensor&) { return sigmoid(x); }},
      {"sqrt_", [](const Tensor& x, const Tensor&) { x.sqrt_(); },
       [](const Tensor& x, const Tensor&) { return sqrt(x); }},
      {"square_", [](const Tensor& x, const Tensor&) { x.square_(); },
       [](const Tensor& x, const Tensor&) { return square(x); }, true},
      {"tanh_", [](const Tensor& x, const Tensor&) { x.tanh_(); },
       [](const Tensor& x, const Tensor&) { return tanh(x); }},
      {"relu_", [](const Tensor& x, const Tensor&) { x.relu_(); },
       [](const Tensor& x, const Tensor&) { return relu(x); }, true},
      {"floor_", [](const Tensor& x, const Tensor&) { x.floor_(); },
       [](const Tensor& x, const Tensor&) { return floor(x); }, true},
      {"ceil_", [](const Tensor& x, const Tensor&) { x.ceil_(); },
       [](const Tensor& x, const Tensor&) { return ceil(x); }, true},
      {"round_", [](const Tensor& x, const Tensor&) { x.round_(); },
       [](const Tensor& x, const Tensor&) { return round(x); }, true},
      {"trunc_", [](const Tensor& x, const Tensor&) { x.trunc_(); },
       [](const Tensor& x, const Tensor&) { return trunc(x); }, true},
      {"sign_", [](const Tensor& x, const Tensor&) { x.sign_(); },
       [](const Tensor& x, const Tensor&) { return sign(x); }, true},
      {"sin_", [](const Tensor& x, const Tensor&) { x.sin_(); },
       [](const Tensor& x, const Tensor&) { return sin(x); }},
      {"cos_", [](const Tensor& x, const Tensor&) { x.cos_(); },
       [](const Tensor& x, const Tensor&) { return cos(x); }},
      {"erf_", [](const Tensor& x, const Tensor&) { x.erf_(); },
       [](const Tensor& x, const Tensor&) { return erf(x); }},
      {"log1p_", [](const Tensor& x, const Tensor&) { x.log1p_(); },
       [](const Tensor& x, const Tensor&) { return log1p(x); }},
      {"expm1_", [](const Tensor& x, const Tensor&) { x.expm1_(); },
       [](const Tensor& x, const Tensor&) { return expm1(x); }},
      {"reciprocal_", [](const Tensor& x, const Tensor&) { x.reciprocal_(); },
       [](const Tensor& x, const Tensor&) { return reciprocal(x); }},
      {"rsqrt_", [](const Tensor& x, const Tensor&) { x.rsqrt_(); },
       [](const Tensor& x, const Tensor&) { return rsqrt(x); }},
      {"clamp_", [](const Tensor& x, const Tensor&) { x.clamp_(-1, 2); },
       [](const Tensor& x, const Tensor&) { return clamp(x, -1, 2); }, true},
      {"clamp_ from above", [](const Tensor& x, const Tensor&) { x.clamp_({}, 1); },
       [](const Tensor& x, const Tensor&) { return clamp(x, {}, 1); }, true},
      {"pow_ of its own operation", [](const Tensor& x, const Tensor&) { x.pow_(-0.5); },
       [](const Tensor& x, const Tensor&) { return pow(x, -0.5); }},
      {"pow_", [](const Tensor& x, const Tensor&) { x.pow_(1.7); },
       [](const Tensor& x, const Tensor&) { return pow(x, 1.7); }, false, true},
      {"add_", [](const Tensor& x, const Tensor&) { x.add_(3); },
       [](const Tensor& x, const Tensor&) { return x + 3; }, true},
      {"sub_", [](const Tensor& x, const Tensor&) { x.sub_(3); },
       [](const Tensor& x, const Tensor&) { return x - 3; }, true},
      {"div_ by a number", [](const Tensor& x, const Tensor&) { x.div_(3); },
       [](const Tensor& x, const Tensor&) { return x / 3; }},
      {"mul_", [](const Tensor& x, const Tensor& other) { x.mul_(other); },
       [](const Tensor& x, const Tensor& other) { return x * other; }, true},
      {"div_", [](const Tensor& x, const Tensor& other) { x.div_(other); },
       [](const Tensor& x, const Tensor& other) { return x / other; }},
      {"masked_fill_", [](const Tensor& x, const Tensor& other) { x.masked_fill_(other > 1, 7); },
       [](const Tensor& x, const Tensor& other) { return masked_fill(x, other > 1, 7); }, true},
  };
  return all;
}

Tensor values(const Shape& shape, DType dtype) {
  return randn(shape).abs_().mul_(3).add_(0.5).to(dtype).to(test_device());
}

TEST(InPlaceWrites, TakeNoMemoryOfTheTensorsSize) {
  manual_seed(3);
  for (DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = values({64, 256}, dtype), other = values({256}, dtype);
    for (const Function& f : functions()) {
      if (f.is_wide && dtype != DType::f32) continue;  // computes in f32, for the exponent
      Allocator& memory = allocator(test_device());
      memory.reset_peaks();
      const size_t before = memory.stats().allocated;
      f.change(x, other);
      EXPECT_LT(memory.stats().peak_allocated - before, x.numel() * size_of(dtype) / 4)
          << f.name << ' ' << dtype;
    }
  }
}

// Of whole tensors, and of places of one, the rest of which stays.
TEST(InPlaceWrites, HaveTheBitsOfTheirTwins) {
  manual_seed(4);
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64}) {
    const Tensor other = values({7}, dtype);
    for (const Function& f : functions()) {
      if (!is_floating(dtype) && !f.takes_integers) continue;
      for (int layout : {0, 1, 2}) {
        const Tensor whole = values({layout == 1 ? 7 : 9, layout == 1 ? 9 : 14}, dtype), was = whole.clone();
        auto places = [&](const Tensor& of) {
          return layout == 0 ? slice(of, 1, 0, 7) : layout == 1 ? transpose(of, 0, 1) : slice(of, 1, 7, 14);
        };
        const Tensor x = places(whole);
        const uint64_t version = x.version();
        f.change(x, other);
        EXPECT_TRUE(same_bits(x, f.twin(places(was), other))) << f.name << ' ' << dtype << ' ' << layout;
        EXPECT_GT(x.version(), version) << f.name;
        if (layout == 2) { EXPECT_TRUE(same_bits(slice(whole, 1, 0, 7), slice(was, 1, 0, 7))) << f.name; }
      }
    }
  }
}

// Larger than the pieces that kernels read at once.
TEST(InPlaceWrites, ReadWhatWasThereBefore) {
  manual_seed(5);
  const Tensor x = values({300, 300}, DType::f32), was = x.clone(), turned = transpose(x, 0, 1);
  x.mul_(turned);
  EXPECT_TRUE(same_bits(x, was * transpose(was, 0, 1)));
  x.copy_(was).div_(turned);
  EXPECT_TRUE(same_bits(x, was / transpose(was, 0, 1)));
  x.copy_(was).mul_(slice(x, 0, 2, 3));
  EXPECT_TRUE(same_bits(x, was * slice(was, 0, 2, 3)));
  x.copy_(was).mul_(x);
  EXPECT_TRUE(same_bits(x, was * was));
  const Tensor mask = was > 2, before = mask.clone();
  mask.masked_fill_(transpose(mask, 0, 1), 0);
  EXPECT_TRUE(same_bits(mask, masked_fill(before, transpose(before, 0, 1), 0)));
}

TEST(InPlaceWrites, AreSeenByWhatABackwardNeeds) {
  const Tensor x = values({4}, DType::f32), w = values({4}, DType::f32).set_requires_grad();
  for (const Function& f : functions()) {
    const Tensor y = sum(x * w);
    f.change(x, x.clone());
    expect_error([&] { y.backward(); }, "was changed in place");
  }
}

TEST(InPlaceWrites, AnErrorComesBeforeAnythingIsWritten) {
  const Tensor x = ones({2, 3}, DType::i64, test_device()),
               twice = full({2, 3}, 2, DType::i64, test_device());
  const uint64_t version = x.version();
  expect_error([&] { x.exp_(); }, "exp", "i64");
  expect_error([&] { x.sin_(); }, "sin_: the result, f32, does not fit in i64");
  expect_error([&] { x.div_(2); }, "div_: the result, f32, does not fit in i64");
  expect_error([&] { x.div_(twice); }, "div_: the result, f32, does not fit in i64");
  expect_error([&] { x.mul_(ones({4}, DType::i64, test_device())); },
               "mul_: the source (4,) does not broadcast");
  expect_error([&] { x.mul_(Tensor()); }, "mul_: the source is undefined");
  expect_error([&] { x.clamp_(0.5); }, "clamp: 0.5 is not a whole number");
  expect_error([&] { x.clamp_({}); }, "clamp: neither of the bounds is given");
  expect_error([&] { x.masked_fill_(twice, 0); }, "condition must be bool, got i64");
  expect_error([&] { x.masked_fill_(twice > 1, 0.5); }, "0.5 is not a whole number");
  EXPECT_EQ(x.version(), version);
  EXPECT_EQ(x.to_vector<int64_t>(), std::vector<int64_t>(6, 1));
}

}  // namespace
}  // namespace reprise
