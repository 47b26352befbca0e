// Norms and checks of gradients on the CPU: each element is read once, the pieces of all tensors are the tasks of one loop.
#include "reprise/kernels/optimizer/gradient_norm.h"

#include <atomic>
#include <cmath>
#include <vector>

#include "reprise/kernels/cpu/rows.h"
#include "reprise/kernels/optimizer/gradient_norm_checks.h"
#include "reprise/kernels/optimizer/pieces.h"
#include "reprise/kernels/strided.h"

namespace reprise::kernels {
namespace {

/// In f64: 124 million squares in f32 would lose three digits.
template <class C>
double sum_of_squares(const C* x, int64_t n) {
  double total = 0;
  simd::run([&]<int W>() {
    constexpr int L = W / 2;
    total = sum_terms<L, double>(n, [&](int64_t j, int64_t left) {
      auto value = __builtin_convertvector((simd::load_row<C, L>(x + j, left)), simd::Vector<double, L>);
      return decltype(value)(value * value);
    });
  });
  return total;
}

/// Calls body(place, sum) with the sum of squares of each piece of each tensor, in order.
template <class Body>
void for_each_sum_of_squares(std::span<const TensorView> tensors, const Body& body) {
  auto size = [&](size_t t) { return tensors[t].numel(); };
  int64_t pieces = 0;
  for (size_t t = 0; t < tensors.size(); ++t) pieces += (size(t) + kPiece - 1) / kPiece;
  std::vector<double> partials(static_cast<size_t>(pieces));
  for_each_piece(tensors.size(), size, [&](size_t t, int64_t task, int64_t begin, int64_t end) {
    dispatch_compute(tensors[t].dtype, [&]<class C>() {
      Reader<C> reader(tensors[t], begin);
      for_each_chunk(begin, end, [&](int64_t, int64_t count) {
        if constexpr (!std::is_integral_v<C>)
          partials[size_t(task)] += sum_of_squares(reader.read(count), count);
      });
    });
  });
  size_t next = 0;
  for (size_t t = 0; t < tensors.size(); ++t)
    for (int64_t begin = 0; begin < size(t); begin += kPiece) body(t, partials[next++]);
}

void global_norm_cpu(const Stream&, std::span<const TensorView> tensors, const TensorView& norm) {
  check_over_tensors("global_norm", tensors, "norm", norm, DType::f64);
  double total = 0;
  for_each_sum_of_squares(tensors, [&](size_t, double sum) { total += sum; });
  *norm.as<double>() = std::sqrt(total);
}

void norm_and_check_cpu(const Stream&, std::span<const TensorView> tensors, const GradientCheck& given) {
  check_norm_and_check(tensors, given);
  double total = 0;
  int32_t found = 0;
  for_each_sum_of_squares(tensors, [&](size_t place, double sum) {
    total += sum;
    if (found == 0 && !std::isfinite(sum)) found = int32_t(place) + 1;
  });
  const double inverse = given.scale ? 1 / double(*given.scale.as<float>()) : 1;
  const double norm = std::sqrt(total) * inverse;
  *given.found.as<int32_t>() = found;
  *given.norm.as<double>() = norm;
  *given.gradient_scale.as<double>() =
      given.clip > 0 ? inverse * std::min(1.0, given.clip / (norm + 1e-6)) : inverse;
}

template <class C>
bool all_finite(const C* x, int64_t n) {
  bool finite = true;
  for (int64_t i = 0; i < n; ++i) finite &= std::fabs(x[i]) <= std::numeric_limits<C>::max();
  return finite;
}

void check_finite_cpu(const Stream&, std::span<const TensorView> tensors, const TensorView& found) {
  check_over_tensors("check_finite", tensors, "found", found, DType::i32);
  std::atomic<bool> finite = true;
  auto size = [&](size_t t) { return tensors[t].numel(); };
  for_each_piece(tensors.size(), size, [&](size_t t, int64_t, int64_t begin, int64_t end) {
    dispatch_compute(tensors[t].dtype, [&]<class C>() {
      Reader<C> reader(tensors[t], begin);
      for_each_chunk(begin, end, [&](int64_t, int64_t count) {
        if constexpr (!std::is_integral_v<C>)
          if (!all_finite(reader.read(count), count)) finite = false;
      });
    });
  });
  *found.as<int32_t>() = !finite;
}

}  // namespace

decltype(global_norm) global_norm{"global_norm", global_norm_cpu};
decltype(check_finite) check_finite{"check_finite", check_finite_cpu};
decltype(norm_and_check) norm_and_check{"norm_and_check", norm_and_check_cpu};

}  // namespace reprise::kernels
