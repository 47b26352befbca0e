// Sizes, dimensions, indices and numbers at the ends of their types, given to the whole public API: each call
// ends in an Error that names the operation the user called, or in a right result. Under the preset asan,
// UndefinedBehaviorSanitizer watches the arithmetic.
#include <cmath>
#include <limits>

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::expect_error;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kExtremes[] = {-1,
                                 kLeast,
                                 kLeast + 1,
                                 kMost,
                                 kMost - 1,
                                 int64_t(1) << 31,
                                 (int64_t(1) << 32) + 1,
                                 int64_t(1) << 40,
                                 int64_t(1) << 60,
                                 -(int64_t(1) << 32) - 1};
// A dimension of this number is none of a tensor of rank 2, even where only 32 of its bits are looked at.
constexpr int64_t kNoDimensions[] = {
    2, -3, kLeast, kMost, int64_t(1) << 32, (int64_t(1) << 32) + 1, -(int64_t(1) << 32), int64_t(1) << 40};

Tensor numbers(const Shape& shape) { return reshape(arange(numel_of(shape), DType::f32), shape); }

// Calls `body`; an Error must begin with `op`, and says true.
bool refuses(const char* op, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind(std::string(op) + ": ", 0), 0u)
        << "of " << op << ": " << error.what();
    return true;
  }
  return false;
}

// Makers of tensors say what is wrong with the size, or that no memory holds it.
void expect_refused_size(int64_t size, const std::function<void()>& make) {
  const std::string message = testing::error_of(make);
  auto says = [&](const char* part) { return message.find(part) != std::string::npos; };
  if (size < 0)
    EXPECT_TRUE(says(": negative size in (") || says(": count must be at least 0, got ")) << message;
  else
    EXPECT_TRUE(says(": too many elements in (") || says(": too large: (") || says("out of memory on "))
        << message;
}

TEST(ExtremeArguments, AsDimensionsAreRefusedByName) {
  Tensor x = numbers({2, 3}).set_requires_grad();
  for (int64_t dim : kNoDimensions) {
    SCOPED_TRACE(dim);
    EXPECT_TRUE(refuses("sum", [&] { sum(x, {dim}); }));
    EXPECT_TRUE(refuses("mean", [&] { mean(x, {0, dim}, true); }));
    EXPECT_TRUE(refuses("variance", [&] { variance(x, {dim}); }));
    EXPECT_TRUE(refuses("max", [&] { max(x, {dim}); }));
    EXPECT_TRUE(refuses("min", [&] { min(x, {dim}); }));
    EXPECT_TRUE(refuses("permute", [&] { permute(x, {0, dim}); }));
    EXPECT_TRUE(refuses("transpose", [&] { x.transpose(dim, 0); }));
    EXPECT_TRUE(refuses("slice", [&] { x.slice(dim, 0, 1); }));
    EXPECT_TRUE(refuses("select", [&] { x.select(dim, 0); }));
    EXPECT_TRUE(refuses("squeeze", [&] { x.squeeze(dim); }));
    EXPECT_TRUE(refuses("split", [&] { split(x, 1, dim); }));
    EXPECT_TRUE(refuses("concat", [&] { concat({x, x}, dim); }));
    EXPECT_TRUE(refuses("size", [&] { x.size(dim); }));
    if (dim == 2 || dim == -3) continue;  // places of a new dimension
    EXPECT_TRUE(refuses("unsqueeze", [&] { x.unsqueeze(dim); }));
    EXPECT_TRUE(refuses("stack", [&] { stack({x, x}, dim); }));
  }
}

TEST(ExtremeArguments, AsDimensionsListedTwiceAreRefusedByName) {
  Tensor x = numbers({2, 3});
  EXPECT_TRUE(refuses("sum", [&] { sum(x, {1, 1}); }));
  EXPECT_TRUE(refuses("mean", [&] { mean(x, {1, -1}); }));
  EXPECT_TRUE(refuses("variance", [&] { variance(x, {0, -2}); }));
  EXPECT_TRUE(refuses("max", [&] { max(x, {0, 1, 0}); }));
  EXPECT_TRUE(refuses("min", [&] { min(x, {1, 1}); }));
  EXPECT_TRUE(refuses("permute", [&] { permute(x, {1, -1}); }));
  expect_error([&] { sum(x, {0, -2}); }, {"sum", "dimension 0 twice", "(0, -2)"});
}

TEST(ExtremeArguments, AsBoundsOfASliceAreRefusedOrRight) {
  Tensor x = arange(10).to(DType::f32).detach().set_requires_grad();
  for (int64_t bound : {-15l, 11l, -11l}) {
    EXPECT_TRUE(refuses("slice", [&] { x.slice(0, bound, 9); })) << bound;
    EXPECT_TRUE(refuses("slice", [&] { x.slice(0, 0, bound); })) << bound;
    EXPECT_TRUE(refuses("select", [&] { x.select(0, bound); })) << bound;
  }
  for (int64_t bound : kExtremes) {
    if (bound == -1) continue;
    EXPECT_TRUE(refuses("slice", [&] { x.slice(0, bound, 9); })) << bound;
    EXPECT_TRUE(refuses("slice", [&] { x.slice(0, 0, bound); })) << bound;
    EXPECT_TRUE(refuses("select", [&] { x.select(0, bound); })) << bound;
  }
  EXPECT_EQ(x.slice(0, -10, -1).numel(), 9);
  for (int64_t step : {kMost, int64_t(1) << 40, int64_t(10)}) {
    Tensor first = x.slice(0, 0, 10, step);
    EXPECT_EQ(first.detach().to_vector<double>(), (std::vector<double>{0})) << step;
    x.set_grad({});
    first.sum().backward();
    EXPECT_EQ(x.grad().sum().item(), 1) << step;
  }
  for (int64_t step : {int64_t(0), int64_t(-1), kLeast})
    EXPECT_TRUE(refuses("slice", [&] { x.slice(0, 0, 10, step); }));
  for (int64_t size : {kMost, int64_t(1) << 40}) EXPECT_EQ(split(x, size, 0).size(), 1u);
  for (int64_t size : {int64_t(0), int64_t(-1), kLeast})
    EXPECT_TRUE(refuses("split", [&] { split(x, size, 0); }));
  EXPECT_EQ(split(zeros({0, 3}), 2, 0).size(), 1u) << "one empty piece, as in PyTorch";
}

TEST(ExtremeArguments, AsSizesAreRefusedByName) {
  Tensor x = numbers({2, 3}), one = ones({1});
  const int64_t large = int64_t(1) << 40;
  for (int64_t size : kExtremes) {
    SCOPED_TRACE(size);
    if (size < 0 || size >= int64_t(1) << 60) {  // others may find the memory
      expect_refused_size(size, [&] { zeros({size}); });
      expect_refused_size(size, [&] { zeros({size, size}); });
      expect_refused_size(size, [&] { ones({2, size}); });
      expect_refused_size(size, [&] { rand({size}); });
      expect_refused_size(size, [&] { arange(size); });
      EXPECT_TRUE(refuses("one_hot", [&] { one_hot(arange(3), size); }));
    }
    EXPECT_TRUE(refuses("reshape", [&] { x.reshape({size, 2, 2}); }));
    EXPECT_TRUE(refuses("expand", [&] { x.expand({size, 3}); }));
    EXPECT_EQ(refuses("reshape", [&] { x.reshape({size, 6, -1}); }), true);
    const bool fits = size >= 0 && size <= int64_t(1) << 48;
    EXPECT_EQ(refuses("expand", [&] { one.expand({size, 1 << 12}); }), !fits);
  }
  EXPECT_TRUE(refuses("reshape", [&] { x.reshape({large, large, -1}); }));
  EXPECT_TRUE(refuses("reshape", [&] { x.reshape({large, large, 0}); }));
  EXPECT_TRUE(refuses("reshape", [&] { x.reshape({-2, -3, -1}); }));
  expect_error(
      [&] {
        Tensor::empty({0, large, large});
      },
      "too many elements in (0, 1099511627776, 1099511627776)");
  expect_error([&] { zeros({large, large, 0}); }, "too many elements in (1099511627776, 1099511627776, 0)");
  EXPECT_EQ(zeros({0, large}).numel(), 0);
  EXPECT_EQ(zeros({0, large}).reshape({large, 0}).shape(), (Shape{large, 0}));
  EXPECT_TRUE(refuses("arange", [&] { arange(-1); }));
  EXPECT_TRUE(refuses("add", [&] { ones({1, 1}).expand({large, 1}) + ones({1, 1}).expand({1, large}); }));
  EXPECT_TRUE(refuses("concat", [&] {
    Tensor wide = one.expand({int64_t(1) << 60});
    concat({wide, wide, wide, wide, wide, wide, wide, wide, wide}, 0);
  }));
  EXPECT_EQ(one.expand({large}).select(0, large - 1).item(), 1);
  EXPECT_EQ(one.expand({large}).slice(0, 5, large, large / 2).numel(), 2);
}

TEST(ExtremeArguments, OfConvolutionsAreRefusedOrRight) {
  Tensor x = ones({1, 1, 3, 3}), weight = ones({1, 1, 1, 1}), wide = ones({1, 1, 2, 2});
  for (int64_t n : kExtremes) {
    SCOPED_TRACE(n);
    for (const Tensor& w : {weight, wide}) {
      EXPECT_TRUE(refuses("conv2d", [&] { conv2d(x, w, {}, {.padding = n}); }) || n == int64_t(1) << 31);
      if (n <= 0 || n > kMost / 4) {
        EXPECT_TRUE(refuses("conv2d", [&] { conv2d(x, w, {}, {.stride = n}); }));
        EXPECT_TRUE(refuses("conv2d", [&] { conv2d(x, w, {}, {.dilation = n}); }));
      }
      EXPECT_TRUE(refuses("conv2d", [&] { conv2d(x, w, {}, {.groups = n}); }));
    }
  }
  const int64_t most = (int64_t(1) << 31) - 1;
  EXPECT_EQ(conv2d(x, weight, {}, {.stride = most}).to_vector<double>(), (std::vector<double>{1}));
  EXPECT_EQ(conv2d(x, weight, {}, {.dilation = most}).numel(), 9);
  EXPECT_EQ(conv2d(x, weight, {}, {.stride = most, .padding = most}).to_vector<double>(),
            (std::vector<double>{0, 0, 0, 0, 1, 0, 0, 0, 0}));
}

TEST(ExtremeArguments, OfLayersAreRefusedByName) {
  Tensor x = numbers({2, 6}), table = numbers({4, 3});
  for (int64_t n : kExtremes) {
    SCOPED_TRACE(n);
    EXPECT_TRUE(refuses("embedding", [&] { embedding(table, Tensor::from<int64_t>({n}, {1})); }));
    EXPECT_TRUE(refuses("gather", [&] { gather(x, Tensor::from<int64_t>({n, n}, {2, 1})); }));
    EXPECT_TRUE(refuses("one_hot", [&] { one_hot(Tensor::from<int64_t>({n}, {1}), 3); }));
    EXPECT_TRUE(refuses("cross_entropy", [&] { cross_entropy(x, Tensor::from<int64_t>({0, n}, {2})); }));
    EXPECT_TRUE(refuses("packed_attention", [&] { packed_attention(x.reshape({1, 2, 6}), n); }));
  }
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                   inf = std::numeric_limits<double>::infinity();
  for (double p : {nan, inf, -inf, -1.0, 1.0, 1e308, -1e-300}) {
    EXPECT_TRUE(refuses("dropout", [&] { dropout(x, p); })) << p;
    EXPECT_TRUE(refuses("attention", [&] {
      Tensor q = numbers({1, 1, 2, 3});
      attention(q, q, q, {.dropout = p});
    })) << p;
  }
  for (double value : {nan, inf, -inf, 1e300, 0.5}) {
    EXPECT_TRUE(refuses("mul", [&] { arange(3) * value; })) << value;
    EXPECT_TRUE(refuses("add", [&] { arange(3) + value; })) << value;
    EXPECT_TRUE(refuses("sub", [&] { value - arange(3); })) << value;
    EXPECT_TRUE(refuses("pow", [&] { pow(arange(3), value); })) << value;
  }
}

TEST(ExtremeArguments, AsNumbersInIntegerTensorsAreRefusedByName) {
  Tensor x = arange(3);
  for (double value : {std::nan(""), 0.5, 1e300, -1e300, 0x1p63, double(INFINITY)}) {
    EXPECT_TRUE(refuses("full", [&] { full({2}, value, DType::i64); })) << value;
    EXPECT_TRUE(refuses("fill_", [&] { x.fill_(value); })) << value;
    EXPECT_TRUE(refuses("mul_", [&] { x.mul_(value); })) << value;
    EXPECT_TRUE(refuses("add_", [&] { x.add_(arange(3), value); })) << value;
  }
  EXPECT_TRUE(refuses("full", [&] { full({2}, 0x1p31, DType::i32); }));
  EXPECT_EQ(full({1}, -0x1p31, DType::i32).item(), -0x1p31);
  EXPECT_EQ(full({1}, -0x1p63, DType::i64).item(), -0x1p63);
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2})) << "nothing was written";
}

TEST(ExtremeArguments, OfIntegerTensorsAreRefusedByTheOpTheUserCalled) {
  Tensor i = arange(6).reshape({2, 3}), square_ = arange(9).reshape({3, 3});
  EXPECT_TRUE(refuses("matmul", [&] { matmul(i, square_); }));
  EXPECT_TRUE(refuses("linear", [&] { linear(i, square_); }));
  EXPECT_TRUE(refuses("mlp", [&] { mlp(i, square_, {}, square_, {}); }));
  EXPECT_TRUE(refuses("mean", [&] { mean(i); }));
  EXPECT_TRUE(refuses("variance", [&] { variance(i); }));
  EXPECT_TRUE(refuses("gelu", [&] { gelu(i); }));
  EXPECT_TRUE(refuses("softmax", [&] { softmax(i); }));
  EXPECT_TRUE(refuses("log_softmax", [&] { log_softmax(i); }));
  EXPECT_TRUE(refuses("layer_norm", [&] { layer_norm(i, {}, {}); }));
  EXPECT_TRUE(refuses("rms_norm", [&] { rms_norm(i, {}); }));
  EXPECT_TRUE(refuses("add_layer_norm", [&] { add_layer_norm(i, i, {}, {}); }));
  EXPECT_TRUE(refuses("add_rms_norm", [&] { add_rms_norm(i, i, {}); }));
  EXPECT_TRUE(refuses("batch_norm", [&] { batch_norm(i, {}, {}, {}, {}, {.training = true}); }));
  EXPECT_TRUE(refuses("swiglu", [&] { swiglu(i, i); }));
  EXPECT_TRUE(refuses("dropout", [&] { dropout(i, 0.5); }));
  EXPECT_TRUE(refuses("cross_entropy", [&] { cross_entropy(i, arange(2)); }));
  EXPECT_TRUE(refuses("attention", [&] {
    Tensor q = arange(6).reshape({1, 1, 2, 3});
    attention(q, q, q);
  }));
  EXPECT_TRUE(refuses("packed_attention", [&] { packed_attention(arange(6).reshape({1, 2, 3}), 1); }));
  EXPECT_TRUE(refuses("conv2d", [&] {
    Tensor q = arange(6).reshape({1, 1, 2, 3});
    conv2d(q, q);
  }));
  EXPECT_TRUE(refuses("copy_", [&] { zeros({2}).copy_(zeros({3})); }));
  EXPECT_TRUE(refuses("add_", [&] { zeros({2}).add_(zeros({3})); }));
  EXPECT_TRUE(refuses("max", [&] { max(zeros({2, 0}), {1}); }));
  EXPECT_TRUE(refuses("argmax", [&] { argmax(zeros({2, 0}), -1); }));
}

}  // namespace
}  // namespace reprise
