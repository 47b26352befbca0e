// Which dtypes kernels take beside each other, and that they refuse all others with an Error that names the operation.
#include <functional>
#include <string>
#include <vector>

#include "reprise/kernels/attention/rotary.h"
#include "reprise/kernels/conv/conv2d.h"
#include "reprise/kernels/elementwise/elementwise.h"
#include "reprise/kernels/gemm/gemm.h"
#include "reprise/kernels/image/separable2d.h"
#include "reprise/kernels/index/embedding.h"
#include "reprise/kernels/norm/group_norm.h"
#include "reprise/kernels/norm/layer_norm.h"
#include "reprise/kernels/norm/rms_norm.h"
#include "reprise/kernels/reduce/cumulative_sum.h"
#include "reprise/kernels/reduce/reduce.h"
#include "reprise/kernels/softmax/soft_cross_entropy.h"
#include "reprise/kernels/softmax/softmax.h"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {
namespace {

constexpr DType f64 = DType::f64, f32 = DType::f32, i64 = DType::i64;
constexpr DType kDTypes[] = {f64, f32, DType::bf16, DType::f16, i64};

using DTypes = std::vector<DType>;
using Views = std::vector<TensorView>;

bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }
bool are_all(const DTypes& dtypes, DType dtype) {
  return std::all_of(dtypes.begin(), dtypes.end(), [=](DType each) { return each == dtype; });
}
bool are_one(const DTypes& dtypes) { return are_all(dtypes, dtypes[0]); }
bool are_one_floating(const DTypes& dtypes) { return are_one(dtypes) && dtypes[0] != i64; }
/// All f64, or each f32 or of 16 bits.
bool are_mixed(const DTypes& dtypes) {
  return are_all(dtypes, f64) ||
         std::all_of(dtypes.begin(), dtypes.end(), [](DType each) { return each == f32 || is_half(each); });
}
bool are_mixed_or_whole(const DTypes& dtypes) { return are_mixed(dtypes) || are_all(dtypes, i64); }
/// One floating dtype, or 16 bits that give f32; or integers.
bool are_one_or_widened(const DTypes& dtypes) {
  return are_one(dtypes) || (is_half(dtypes[0]) && dtypes[1] == f32);
}
DType wide(DType dtype) { return dtype == f64 ? f64 : f32; }

struct Launcher {
  std::string op;             ///< with which Errors begin
  std::vector<Shape> shapes;  ///< of its views
  std::function<void(const Views&)> run;
  std::function<bool(const DTypes&)> takes;
};

Launcher unary_of(UnaryOp op, const char* name, bool (*takes)(const DTypes&)) {
  return {name, {{3, 4}, {3, 4}}, [=](const Views& v) { run_kernel(unary, op, v[0], v[1]); }, takes};
}
Launcher gradient_of(UnaryOp op, const char* name, bool (*takes)(const DTypes&)) {
  return {name,
          {{3, 4}, {3, 4}, {3, 4}},
          [=](const Views& v) { run_kernel(unary_backward, op, v[0], v[1], v[2]); },
          takes};
}
Launcher binary_of(BinaryOp op, const char* name, std::function<bool(const DTypes&)> takes) {
  return {name,
          {{3, 4}, {3, 4}, {3, 4}},
          [=](const Views& v) { run_kernel(binary, op, v[0], v[1], v[2]); },
          std::move(takes)};
}
Launcher comparison_of(BinaryOp op, const char* name) {
  return {name,
          {{3, 4}, {3, 4}},
          [=](const Views& v) {
            Array y({3, 4}, DType::boolean);
            run_kernel(binary, op, v[0], v[1], y.view());
          },
          are_mixed_or_whole};
}
Launcher reduction_of(ReduceOp op, bool (*takes)(const DTypes&)) {
  return {"reduce", {{3, 4}, {3, 1}}, [=](const Views& v) { run_kernel(reduce, op, v[0], v[1]); }, takes};
}
template <class KernelOf>
Launcher rows_of(const KernelOf& kernel, const char* name) {
  return {name, {{3, 4}, {3, 4}}, [&kernel](const Views& v) { run_kernel(kernel, v[0], v[1]); }, are_mixed};
}
template <class KernelOf>
Launcher gradient_of_rows(const KernelOf& kernel, const char* name) {
  return {name,
          {{3, 4}, {3, 4}, {3, 4}},
          [&kernel](const Views& v) { run_kernel(kernel, v[0], v[1], v[2]); },
          are_mixed};
}

bool adds(const DTypes& d) {
  const bool widens = (d[0] == f32 && is_half(d[1])) || (is_half(d[0]) && d[1] == f32);
  return are_one(d) || (widens && d[2] == f32);
}

/// x, weight and y of a convolution: f32 beside 16 bits for x alone.
bool reads_images(const DTypes& d) {
  return are_one_floating({d[1], d[2]}) && (d[0] == d[1] || (d[0] == f32 && is_half(d[1])));
}

std::vector<Launcher> launchers() {
  std::vector<Launcher> all = {
      unary_of(UnaryOp::exp, "exp", are_mixed),
      unary_of(UnaryOp::square, "square", are_mixed_or_whole),
      unary_of(UnaryOp::tanh, "tanh", are_one_floating),
      unary_of(UnaryOp::relu, "relu", are_one),
      gradient_of(UnaryOp::exp, "exp", are_mixed),
      gradient_of(UnaryOp::softplus, "softplus", are_mixed),
      gradient_of(UnaryOp::tanh, "tanh", are_one_floating),
      binary_of(BinaryOp::mul, "mul", are_mixed_or_whole),
      binary_of(BinaryOp::sub, "sub", are_mixed_or_whole),
      binary_of(BinaryOp::pow, "pow", are_mixed),
      binary_of(BinaryOp::bce_with_logits, "bce_with_logits", are_mixed),
      binary_of(BinaryOp::add, "add", adds),
      binary_of(BinaryOp::div, "div", are_mixed),
      binary_of(BinaryOp::maximum, "maximum", are_mixed_or_whole),
      binary_of(BinaryOp::minimum, "minimum", are_mixed_or_whole),
      binary_of(BinaryOp::remainder, "remainder", are_one),
      comparison_of(BinaryOp::less, "less"),
      comparison_of(BinaryOp::equal, "equal"),
      reduction_of(ReduceOp::sum, are_one_or_widened),
      reduction_of(ReduceOp::max, are_one),
      rows_of(softmax, "softmax"),
      rows_of(log_softmax, "log_softmax"),
      gradient_of_rows(softmax_backward, "softmax_backward"),
      gradient_of_rows(log_softmax_backward, "log_softmax_backward"),
  };
  all.push_back({"where",
                 {{3, 4}, {3, 4}, {3, 4}},
                 [](const Views& v) {
                   Array condition({3, 4}, DType::boolean);
                   condition.fill_with([](int64_t i) { return double(i % 2); });
                   run_kernel(where, condition.view(), v[0], v[1], v[2]);
                 },
                 are_mixed_or_whole});
  all.push_back({"cumsum",
                 {{3, 4}, {3, 4}},
                 [](const Views& v) { run_kernel(cumulative_sum, v[0], false, v[1]); },
                 are_one_or_widened});
  for (bool centred : {true, false}) {
    const auto& forward = centred ? layer_norm : rms_norm;
    const auto& backward = centred ? layer_norm_backward : rms_norm_backward;
    const std::string name = centred ? "layer_norm" : "rms_norm";
    all.push_back({name,
                   {{3, 4}, {3, 4}},
                   [&forward](const Views& v) { run_kernel(forward, {.x = v[0], .eps = 1e-5, .y = v[1]}); },
                   are_mixed});
    all.push_back({name + "_backward",
                   {{3, 4}, {3, 4}, {3, 4}},
                   [=, &backward](const Views& v) {
                     Array mean({3}, wide(v[1].dtype)), rstd({3}, wide(v[1].dtype));
                     run_kernel(backward, {.dy = v[0],
                                           .x = v[1],
                                           .mean = centred ? mean.view() : TensorView(),
                                           .rstd = rstd.view(),
                                           .dx = v[2]});
                   },
                   are_mixed});
  }
  all.push_back(
      {"group_norm",
       {{2, 4, 3}, {2, 4, 3}},
       [](const Views& v) { run_kernel(group_norm, {.x = v[0], .groups = 2, .eps = 1e-5, .y = v[1]}); },
       are_mixed});
  all.push_back(
      {"group_norm_backward",
       {{2, 4, 3}, {2, 4, 3}, {2, 4, 3}},
       [](const Views& v) {
         Array mean({2, 2}, wide(v[1].dtype)), rstd({2, 2}, wide(v[1].dtype));
         run_kernel(
             group_norm_backward,
             {.dy = v[0], .x = v[1], .groups = 2, .mean = mean.view(), .rstd = rstd.view(), .dx = v[2]});
       },
       are_mixed});
  all.push_back({"separable2d",
                 {{1, 1, 2, 2}, {1, 1, 2, 2}},
                 [](const Views& v) {
                   Array starts({3}, DType::i32), sources({2}, DType::i32), weights({2}, wide(v[0].dtype));
                   starts.fill_with([](int64_t i) { return double(i); });
                   sources.fill_with([](int64_t i) { return double(i); });
                   weights.fill_with([](int64_t) { return 1.0; });
                   const SparseRows rows{starts.view(), sources.view(), weights.view()};
                   run_kernel(separable2d, v[0], rows, rows, v[1]);
                 },
                 are_mixed});
  all.push_back({"rotary",
                 {{3, 4}, {3, 4}},
                 [](const Views& v) {
                   Array table({3, 2}, wide(v[0].dtype));
                   run_kernel(rotary, {.x = v[0], .y = v[1], .cosines = table.view(), .sines = table.view()});
                 },
                 are_mixed});
  all.push_back({"conv2d",
                 {{1, 2, 3, 3}, {2, 2, 2, 2}, {1, 2, 2, 2}},
                 [](const Views& v) { run_kernel(conv2d, {.x = v[0], .weight = v[1], .y = v[2]}); },
                 reads_images});
  all.push_back({"conv2d",
                 {{1, 2, 3, 3}, {1, 2, 2, 2}, {1, 2, 3, 3}},
                 [](const Views& v) {
                   Array weight({2, 2, 2, 2}, v[1].dtype);
                   run_kernel(conv2d_dx, {.dy = v[1], .weight = weight.view(), .dx = v[2]});
                 },
                 [](const DTypes& d) { return d[1] != i64 && d[2] == d[1]; }});
  all.push_back({"conv2d",
                 {{1, 2, 3, 3}, {1, 2, 2, 2}, {2, 2, 2, 2}},
                 [](const Views& v) { run_kernel(conv2d_dweight, {.dy = v[1], .x = v[0], .dweight = v[2]}); },
                 [](const DTypes& d) {
                   const bool sums = d[2] == d[1] || (is_half(d[1]) && d[2] == f32);
                   return sums && reads_images({d[0], d[1], d[1]});
                 }});
  all.push_back({"embedding",
                 {{3, 4}, {2, 4}},
                 [](const Views& v) {
                   Array indices({2}, i64);
                   indices.fill_with([](int64_t i) { return double(i); });
                   run_kernel(embedding, v[0], indices.view(), v[1]);
                 },
                 are_mixed_or_whole});
  all.push_back({"gemm",
                 {{2, 3}, {3, 2}, {2, 2}},
                 [](const Views& v) { run_kernel(gemm, {.a = v[0], .b = v[1], .c = v[2]}); },
                 [](const DTypes& d) {
                   return are_one_floating({d[0], d[1]}) && (d[2] == d[0] || (is_half(d[0]) && d[2] == f32));
                 }});
  all.push_back({"soft_cross_entropy",
                 {{3, 4}, {3, 4}, {3, 4}},
                 [](const Views& v) {
                   Array losses({3}, wide(v[0].dtype));
                   run_kernel(soft_cross_entropy,
                              {.logits = v[0], .targets = v[1], .losses = losses.view(), .dlogits = v[2]});
                 },
                 [](const DTypes& d) {
                   return are_mixed({d[0], d[1]}) && d[2] == d[0];
                 }});
  return all;
}

/// All lists of `count` dtypes.
std::vector<DTypes> lists_of(size_t count) {
  std::vector<DTypes> all = {{}};
  for (size_t place = 0; place < count; ++place) {
    std::vector<DTypes> longer;
    for (const DTypes& list : all)
      for (DType dtype : kDTypes) {
        longer.push_back(list);
        longer.back().push_back(dtype);
      }
    all = std::move(longer);
  }
  return all;
}

TEST(MixedFloats, AreTakenWhereAKernelReadsThemAndElseRefused) {
  for (const Launcher& launcher : launchers())
    for (const DTypes& dtypes : lists_of(launcher.shapes.size())) {
      std::vector<Array> arrays;
      Views views;
      std::string names;
      for (size_t i = 0; i < dtypes.size(); ++i) {
        arrays.emplace_back(launcher.shapes[i], dtypes[i]);
        arrays.back().fill_with([](int64_t at) { return double(at % 3); });
        views.push_back(arrays.back().view());
        names += ' ';
        names += name_of(dtypes[i]);
      }
      SCOPED_TRACE(launcher.op + " of" + names);
      try {
        launcher.run(views);
        EXPECT_TRUE(launcher.takes(dtypes)) << "it was not refused";
      } catch (const Error& error) {
        EXPECT_FALSE(launcher.takes(dtypes)) << error.what();
        EXPECT_EQ(std::string(error.what()).rfind(launcher.op + ": ", 0), 0u) << error.what();
      }
    }
}

}  // namespace
}  // namespace reprise::kernels::testing
