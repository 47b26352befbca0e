// The table of autocast against PyTorch's lists for CUDA, and what PyTorch does on CPUs (tests/golden/autocast_lists.txt,
// made by tools/parity_autocast.py).
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/losses.h"
#include "reprise/autograd/ops/elementwise/pointwise.h"
#include "reprise/autograd/ops/elementwise/powers.h"
#include "reprise/autograd/ops/elementwise/remainder.h"
#include "reprise/autograd/ops/gemm/einsum.h"
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/autograd/ops/index/indexing.h"
#include "reprise/autograd/ops/reduce/similarity.h"
#include "reprise/autograd/ops/reduce/vector_norm.h"
#include "reprise/autograd/ops/tensor/arrangements.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/golden.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::test_device;
struct Op {
  std::function<Tensor(const Tensor& a, const Tensor& b)> call;
  bool takes_two = true;
};

Tensor twos(const Shape& shape, DType dtype) { return full(shape, 2, dtype, test_device()); }
Tensor vector(const Tensor& like) { return ones({4}, like.dtype(), test_device()); }
Tensor zeros_of(const Shape& shape) { return zeros(shape, DType::i64, test_device()); }

// Each operation on a and b, (4, 4) of some dtype each; images and heads are made of them.
std::map<std::string, Op> operations() {
  const Shape images{1, 4, 2, 2};
  std::map<std::string, Op> of{
      {"add", {[](auto& a, auto& b) { return a + b; }}},
      {"sub", {[](auto& a, auto& b) { return a - b; }}},
      {"mul", {[](auto& a, auto& b) { return a * b; }}},
      {"div", {[](auto& a, auto& b) { return a / b; }}},
      {"maximum", {[](auto& a, auto& b) { return maximum(a, b); }}},
      {"minimum", {[](auto& a, auto& b) { return minimum(a, b); }}},
      {"where", {[](auto& a, auto& b) { return where(equal(a, a), a, b); }}},
      {"concat", {[](auto& a, auto& b) {
         return concat({a, b}, 0);
       }}},
      {"stack", {[](auto& a, auto& b) {
         return stack({a, b}, 0);
       }}},
      {"matmul", {[](auto& a, auto& b) { return matmul(a, b); }}},
      {"linear", {[](auto& a, auto& b) { return linear(a, b, vector(b)); }}},
      {"attention", {[](auto& a, auto& b) {
         const Tensor q = reshape(a, {1, 1, 4, 4}), k = reshape(b, {1, 1, 4, 4});
         return attention(q, k, k);
       }}},
      {"conv2d", {[=](auto& a, auto& b) {
         return conv2d(reshape(a, images), reshape(b, {4, 4, 1, 1}), vector(b));
       }}},
      {"conv_transpose2d", {[=](auto& a, auto& b) {
         return conv_transpose2d(reshape(a, images), reshape(b, {4, 4, 1, 1}), vector(b));
       }}},
      {"layer_norm", {[](auto& a, auto& b) { return layer_norm(a, vector(b), vector(b)); }}},
      {"rms_norm", {[](auto& a, auto& b) { return rms_norm(a, vector(b)); }}},
      {"group_norm",
       {[=](auto& a, auto& b) { return group_norm(reshape(a, images), 2, vector(b), vector(b)); }}},
      {"bce_with_logits", {[](auto& a, auto& b) { return bce_with_logits(a, b); }}},
      {"smooth_l1", {[](auto& a, auto& b) { return smooth_l1(a, b); }}},
      {"einsum", {[](auto& a, auto& b) {
         return einsum("ij,jk->ik", {a, b});
       }}},
      {"kl_div", {[](auto& a, auto& b) { return kl_div(a, b); }}},
      {"l1_loss", {[](auto& a, auto& b) { return l1_loss(a, b); }}},
      {"huber_loss", {[](auto& a, auto& b) { return huber_loss(a, b); }}},
      {"mse_loss", {[](auto& a, auto& b) { return mse_loss(a, b); }}},
      {"cosine_similarity", {[](auto& a, auto& b) { return cosine_similarity(a, b, 1); }}},
      {"remainder", {[](auto& a, auto& b) { return remainder(a, b); }}},
      {"fmod", {[](auto& a, auto& b) { return fmod(a, b); }}},
      {"outer", {[](auto& a, auto& b) { return outer(vector(a), vector(b)); }}},
      {"scatter_add", {[](auto& a, auto& b) {
         return scatter_add(a, 0, zeros_of({4, 4}), b);
       }}},
      {"index_add", {[](auto& a, auto& b) { return index_add(a, 0, zeros_of({4}), b); }}},
  };
  auto add = [&](const std::string& name, const std::function<Tensor(const Tensor&)>& call) {
    of[name] = {[call](const Tensor& a, const Tensor&) { return call(a); }, /*takes_two=*/false};
  };
  add("batch_norm", [=](const Tensor& a) {
    const DType parameters = a.dtype() == DType::f64 ? DType::f64 : DType::f32;
    return batch_norm(reshape(a, images), ones({4}, parameters, test_device()), {}, {}, {},
                      {.training = true});
  });
  add("exp", exp), add("log", log), add("sqrt", sqrt), add("rsqrt", rsqrt), add("square", square);
  add("reciprocal", reciprocal), add("abs", abs), add("sin", sin), add("cos", cos), add("tanh", tanh);
  add("sigmoid", sigmoid), add("erf", erf), add("relu", relu), add("gelu", gelu), add("silu", silu);
  add("softmax", [](const Tensor& a) { return softmax(a); });
  add("log_softmax", [](const Tensor& a) { return log_softmax(a); });
  add("clone", clone);
  add("neg", [](const Tensor& a) { return -a; });
  add("clamp", [](const Tensor& a) { return clamp(a, 0, 1); });
  add("pow", [](const Tensor& a) { return pow(a, 3); });
  add("number / x", [](const Tensor& a) { return 1.0 / a; });
  add("sum", [](const Tensor& a) { return sum(a); });
  add("mean", [](const Tensor& a) { return mean(a); });
  add("variance", [](const Tensor& a) { return variance(a); });
  add("max", [](const Tensor& a) { return max(a); });
  add("min", [](const Tensor& a) { return min(a); });
  add("reshape", [](const Tensor& a) { return reshape(a, {16}); });
  add("transpose", [](const Tensor& a) { return transpose(a, 0, 1); });
  add("permute", [](const Tensor& a) { return permute(a, {1, 0}); });
  add("slice", [](const Tensor& a) { return slice(a, 0, 0, 1); });
  add("select", [](const Tensor& a) { return select(a, 0, 0); });
  add("expand", [](const Tensor& a) { return expand(a, {2, 4, 4}); });
  add("unsqueeze", [](const Tensor& a) { return unsqueeze(a, 0); });
  add("squeeze", [](const Tensor& a) { return squeeze(slice(a, 0, 0, 1), 0); });
  add("gather", [](const Tensor& a) { return gather(a, zeros_of({4, 1})); });
  add("embedding", [](const Tensor& a) { return embedding(a, zeros_of({2})); });
  add("max_pool2d", [=](const Tensor& a) { return max_pool2d(reshape(a, images), 2); });
  add("avg_pool2d", [=](const Tensor& a) { return avg_pool2d(reshape(a, images), 2); });
  add("interpolate",
      [=](const Tensor& a) { return interpolate(reshape(a, images), 4, {Interpolation::bilinear}); });
  add("pad", [=](const Tensor& a) { return pad(reshape(a, images), {.top = 1}); });
  add("pad by reflection", [=](const Tensor& a) {
    return pad(reshape(a, images), {.top = 1, .bottom = 1, .left = 1, .right = 1, .mode = PadMode::reflect});
  });
  add("dropout", [](const Tensor& a) { return dropout(a, 0.5); });
  add("cross_entropy", [](const Tensor& a) { return cross_entropy(a, zeros_of({4})); });
  add("nll_loss", [](const Tensor& a) { return nll_loss(a, zeros_of({4})); });
  add("expm1", expm1), add("log1p", log1p), add("softplus", [](const Tensor& a) { return softplus(a); });
  add("logsumexp", [](const Tensor& a) { return logsumexp(a, {-1}); });
  add("prod", [](const Tensor& a) { return prod(a); });
  add("cumsum", [](const Tensor& a) { return cumsum(a, 0); });
  add("stddev", [](const Tensor& a) { return stddev(a); });
  add("vector_norm", [](const Tensor& a) { return vector_norm(a); });
  add("norm", [](const Tensor& a) { return norm(a); });
  add("floor", floor), add("ceil", ceil), add("round", round), add("trunc", trunc), add("sign", sign);
  add("leaky_relu", [](const Tensor& a) { return leaky_relu(a); });
  add("elu", [](const Tensor& a) { return elu(a); });
  add("masked_fill", [](const Tensor& a) { return masked_fill(a, equal(a, a), 3); });
  add("masked_select", [](const Tensor& a) { return masked_select(a, equal(a, a)); });
  add("tril", [](const Tensor& a) { return tril(a); });
  add("triu", [](const Tensor& a) { return triu(a); });
  add("diagonal", [](const Tensor& a) { return diagonal(a); });
  add("flatten", [](const Tensor& a) { return flatten(a); });
  add("movedim", [](const Tensor& a) { return movedim(a, 0, 1); });
  add("index_select", [](const Tensor& a) { return index_select(a, 0, zeros_of({4})); });
  add("take_along_dim", [](const Tensor& a) { return take_along_dim(a, zeros_of({4, 4}), 0); });
  add("sort", [](const Tensor& a) { return sort(a).values; });
  add("topk", [](const Tensor& a) { return topk(a, 2).values; });
  add("flip", [](const Tensor& a) { return flip(a, {0}); });
  add("roll", [](const Tensor& a) { return roll(a, 1, 0); });
  add("repeat", [](const Tensor& a) { return repeat(a, {2, 1}); });
  add("repeat_interleave", [](const Tensor& a) { return repeat_interleave(a, 2, 0); });
  // What is written into a has its dtype, in PyTorch too.
  add("scatter", [](const Tensor& a) { return scatter(a, 0, zeros_of({4, 4}), a); });
  add("index_copy",
      [](const Tensor& a) { return index_copy(a, 0, arange(4, DType::i64, test_device()), a); });
  add("slice_scatter", [](const Tensor& a) { return slice_scatter(a, a, 0, 0, 4); });
  return of;
}

// Results of another dtype than their arguments, or of the dtype of x (index_put).
bool has_no_result_dtype(const std::string& name) {
  static const std::vector<std::string> names{"equal",       "not_equal",     "less",     "less_equal",
                                              "greater",     "greater_equal", "argmax",   "argmin",
                                              "logical_and", "isnan",         "index_put"};
  return std::find(names.begin(), names.end(), name) != names.end();
}

DType expected(const std::string& list, DType a, DType b, DType scope) {
  if (a == DType::f64) return DType::f64;
  if (list == "low") return scope;
  return list == "f32" ? DType::f32 : promote(a, b);
}

struct Row {
  std::string ours, list, on_cpu;
};

std::vector<Row> rows_of_pytorch() {
  std::ifstream file(testing::golden_path("autocast_lists.txt"));
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    std::string pytorchs_name;
    Row& row = rows.emplace_back();
    for (std::string* field : {&row.ours, &pytorchs_name, &row.list, &row.on_cpu})
      std::getline(fields, *field, '\t');
  }
  return rows;
}

TEST(AutocastTable, IsPyTorchsCudaTable) {
  const std::map<std::string, Op> ours = operations();
  const std::vector<Row> rows = rows_of_pytorch();
  ASSERT_GT(rows.size(), 110u);
  size_t compared = 0;
  for (DType scope : {DType::bf16, DType::f16}) {
    amp::Autocast autocast(test_device(), scope);
    for (const auto& [name, list, on_cpu] : rows) {
      if (has_no_result_dtype(name)) continue;
      ASSERT_TRUE(ours.contains(name)) << name;
      for (DType a : {DType::f32, DType::bf16, DType::f16, DType::f64})
        for (DType b : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
          if ((a == DType::f64) != (b == DType::f64)) continue;  // f64 is not cast: it meets f64 alone
          const Op& op = ours.at(name);
          const Tensor y = op.call(twos({4, 4}, a), twos({4, 4}, b));
          const DType want = expected(list, a, op.takes_two ? b : a, scope);
          EXPECT_EQ(y.dtype(), want) << name << " of " << a << " and " << b << " in a scope of " << scope;
          ++compared;
        }
    }
  }
  EXPECT_GT(compared, 1000u);
}

// What PyTorch's CPUs do otherwise than its CUDA devices, as docs/mixed_precision.md has it: these follow their inputs
// there, a sum into mixed dtypes is an error, index_copy takes them, and a reflection is f32.
const std::map<std::string, std::pair<std::string, std::string>>& documented_differences() {
  static const std::map<std::string, std::pair<std::string, std::string>> differences = [] {
    std::map<std::string, std::pair<std::string, std::string>> of{{"scatter_add", {"widest", "inputs"}},
                                                                  {"index_put", {"widest", "inputs"}},
                                                                  {"index_copy", {"inputs", "widest"}},
                                                                  {"pad by reflection", {"inputs", "f32"}}};
    for (const char* name : {"exp",         "expm1",       "log",
                             "log1p",       "pow",         "square",
                             "rsqrt",       "reciprocal",  "number / x",
                             "sum",         "cumsum",      "softmax",
                             "log_softmax", "logsumexp",   "softplus",
                             "layer_norm",  "rms_norm",    "group_norm",
                             "interpolate", "vector_norm", "cosine_similarity",
                             "norm"})
      of[name] = {"f32", "inputs"};
    return of;
  }();
  return differences;
}

TEST(AutocastTable, CpuListDiffersAsDocumented) {
  std::map<std::string, std::pair<std::string, std::string>> seen;
  std::set<std::string> other_dtype;  // than PyTorch's on CPUs
  const std::map<std::string, Op> ours = operations();
  const DType scope = DType::bf16;
  amp::Autocast autocast(test_device(), scope);
  for (const auto& [name, list, on_cpu] : rows_of_pytorch()) {
    ASSERT_TRUE(on_cpu == "low" || on_cpu == "f32" || on_cpu == "widest" || on_cpu == "inputs") << name;
    if (list != on_cpu) seen[name] = {list, on_cpu};
    if (has_no_result_dtype(name)) continue;
    for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      const Tensor x = twos({4, 4}, dtype);
      if (ours.at(name).call(x, x).dtype() != expected(on_cpu, dtype, dtype, scope)) other_dtype.insert(name);
    }
  }
  EXPECT_EQ(seen, documented_differences());
  std::set<std::string> documented;
  for (const auto& [name, policies] : documented_differences())
    if (!has_no_result_dtype(name) && policies.first != "widest" && policies.second != "widest")
      documented.insert(name);  // of one dtype alone the widest is that of the inputs
  EXPECT_EQ(other_dtype, documented);
}

TEST(AutocastTable, SumsOfANormAreWideAndTheirNormsF32) {
  amp::Autocast autocast(test_device(), DType::bf16);
  const Tensor gamma = ones({4}, DType::f32, test_device());
  for (DType a : {DType::f32, DType::bf16})
    for (DType b : {DType::f32, DType::bf16}) {
      const SumAndNorm layer = add_layer_norm(twos({2, 4}, a), twos({2, 4}, b), gamma, gamma);
      const SumAndNorm rms = add_rms_norm(twos({2, 4}, a), twos({2, 4}, b), gamma);
      EXPECT_EQ(layer.sum.dtype(), promote(a, b));
      EXPECT_EQ(rms.sum.dtype(), promote(a, b));
      EXPECT_EQ(layer.norm.dtype(), DType::f32);
      EXPECT_EQ(rms.norm.dtype(), DType::f32);
    }
}

TEST(AutocastTable, NormsAsGivenKeepTheDtypeOfTheirInput) {
  amp::Autocast autocast(test_device(), DType::bf16, {.norms = amp::Norms::as_given});
  const Tensor gamma = ones({4}, DType::f32, test_device());
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    const Tensor x = twos({2, 4}, dtype);
    EXPECT_EQ(layer_norm(x, gamma, {}).dtype(), dtype);
    EXPECT_EQ(rms_norm(x, gamma).dtype(), dtype);
    EXPECT_EQ(add_layer_norm(x, x, gamma, {}).norm.dtype(), dtype);
  }
  EXPECT_EQ(add_rms_norm(twos({2, 4}, DType::bf16), twos({2, 4}, DType::f32), gamma).norm.dtype(),
            DType::f32);
  EXPECT_EQ(rms_norm(twos({2, 4}, DType::bf16), gamma, 1e-6, {.out = DType::f32}).dtype(), DType::f32);
}

TEST(AutocastTable, AResidualIsNotCast) {
  amp::Autocast autocast(test_device(), DType::bf16);
  const Tensor x = twos({2, 4}, DType::f32), w = twos({4, 4}, DType::f32);
  for (DType dtype : {DType::f32, DType::bf16}) {
    const Tensor residual = full({2, 4}, 257, dtype, test_device());
    EXPECT_EQ(linear(x, w, {}, {.residual = residual}).dtype(), dtype);
    EXPECT_EQ(mlp(x, w, {}, w, {}, Activation::relu, {.residual = residual}).dtype(), dtype);
  }
  const Tensor wide = linear(x, w, {}, {.residual = full({2, 4}, 257, DType::f32, test_device())});
  EXPECT_EQ(wide.to_vector<float>()[0], 257 + 16);  // bf16 has no 273
}

TEST(AutocastTable, ANumberDoesNotWiden) {
  amp::Autocast autocast(test_device(), DType::bf16);
  const Tensor number = scalar(2, DType::f32, test_device());
  EXPECT_EQ(where(equal(twos({4}, DType::bf16), number), twos({4}, DType::bf16), number).dtype(),
            DType::bf16);
}

TEST(AutocastTable, OutsideOfAScopeDtypesStayStrict) {
  const Tensor x = twos({4, 4}, DType::bf16), w = twos({4, 4}, DType::f32);
  EXPECT_EQ(testing::error_of([&] { matmul(x, w); }), "matmul: dtypes differ: bf16 and f32");
  EXPECT_EQ(testing::error_of([&] { linear(x, w); }), "linear: input is bf16, weight f32");
  testing::expect_error([&] { linear(x, x, vector(w)); }, "linear: bias f32");
}

}  // namespace
}  // namespace reprise
