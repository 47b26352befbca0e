// Softmax and log-softmax on the CPU: a task is some rows; each row is read once for its maximum, once for
// its sum and once for the result. A NaN reaches the whole row through the sum; a row of -inf alone gives
// NaN.
#include "reprise/kernels/softmax/softmax.h"

#include <array>
#include <cmath>
#include <concepts>
#include <limits>
#include <tuple>

#include "reprise/kernels/cpu/row_access.h"
#include "reprise/kernels/cpu/simd_math.h"

namespace reprise::kernels {
namespace {

template <class T, int L>
using RowVector = simd::Vector<Accumulator<T>, L>;

/// Calls body(x, j) for each vector of a row: its values, with `rest` behind the end, and its first column.
template <int L, class T, class Body>
void each_vector(const T* x, int64_t count, Accumulator<T> rest, Body&& body) {
  for (int64_t j = 0; j < count; j += L) body(simd::load_row<Accumulator<T>, L>(x + j, count - j, rest), j);
}

template <int L, class T>
Accumulator<T> max_of(const T* x, int64_t count) {
  using C = Accumulator<T>;
  constexpr C lowest = -std::numeric_limits<C>::infinity();
  RowVector<T, L> max = RowVector<T, L>{} + lowest;
  each_vector<L>(x, count, lowest, [&](auto value, int64_t) { max = value > max ? value : max; });
  C result = lowest;
  for (int i = 0; i < L; ++i) result = max[i] > result ? max[i] : result;
  return result;
}

template <int L, class T>
void softmax_row(const T* x, T* y, int64_t count) {
  using C = Accumulator<T>;
  using V = RowVector<T, L>;
  constexpr C lowest = -std::numeric_limits<C>::infinity();
  C max = max_of<L>(x, count);
  V sum{};
  each_vector<L>(x, count, lowest, [&](V value, int64_t j) {
    V e = simd::exp(V(value - max));
    if constexpr (std::is_same_v<C, T>) simd::store_row<C, L>(y + j, e, count - j);
    // Behind the end lowest - max is NaN if the row is -inf alone, as the sum is then anyway.
    sum += e;
  });
  C inverse = 1 / simd::sum_lanes<L, C>(sum);
  const T* numerators =
      std::is_same_v<C, T> ? y : x;  // half types would round them, so they compute them again
  each_vector<L>(numerators, count, C(0), [&](V value, int64_t j) {
    if constexpr (!std::is_same_v<C, T>) value = simd::exp(V(value - max));
    simd::store_row<C, L>(y + j, V(value * inverse), count - j);
  });
}

template <int L, class T>
void log_softmax_row(const T* x, T* y, int64_t count) {
  using C = Accumulator<T>;
  using V = RowVector<T, L>;
  C max = max_of<L>(x, count);
  V sum{};
  each_vector<L>(x, count, -std::numeric_limits<C>::infinity(),
                 [&](V value, int64_t) { sum += simd::exp(V(value - max)); });
  C log_sum = std::log(simd::sum_lanes<L, C>(sum));
  each_vector<L>(x, count, C(0), [&](V value, int64_t j) {
    simd::store_row<C, L>(y + j, V((value - max) - log_sum), count - j);
  });
}

template <int L, class T>
void softmax_backward_row(const T* dy, const T* y, T* dx, int64_t count) {
  using C = Accumulator<T>;
  using V = RowVector<T, L>;
  V sum{};
  each_vector<L>(y, count, C(0),
                 [&](V value, int64_t j) { sum += value * simd::load_row<C, L>(dy + j, count - j); });
  C dot = simd::sum_lanes<L, C>(sum);
  each_vector<L>(y, count, C(0), [&](V value, int64_t j) {
    simd::store_row<C, L>(dx + j, V(value * (simd::load_row<C, L>(dy + j, count - j) - dot)), count - j);
  });
}

template <int L, class T>
void log_softmax_backward_row(const T* dy, const T* y, T* dx, int64_t count) {
  using C = Accumulator<T>;
  using V = RowVector<T, L>;
  V sum{};
  each_vector<L>(dy, count, C(0), [&](V value, int64_t) { sum += value; });
  C total = simd::sum_lanes<L, C>(sum);
  each_vector<L>(y, count, C(0), [&](V value, int64_t j) {
    V result = simd::load_row<C, L>(dy + j, count - j) - simd::exp(value) * total;
    simd::store_row<C, L>(dx + j, result, count - j);
  });
}

/// Calls row.operator()<L>(rows of the inputs..., row of y, width) for each row, some thousand elements per task. Rows
/// of several dtypes are those of f32, widened before and rounded after.
template <class Row, std::same_as<TensorView>... Inputs>
void each_row(const char* op, const Row& row, const TensorView& y, const Inputs&... x) {
  const std::array<const TensorView*, sizeof...(x) + 1> views = {&x..., &y};
  check_same_rows(op, *views[0], views);
  if (y.numel() == 0) return;
  const int64_t width = y.size(-1), grain = std::max<int64_t>(1, 8192 / width);
  dispatch_floating(arithmetic_dtype(views), op, [&]<class T>() {
    parallel_for(rows_of(y), grain, [&](int64_t begin, int64_t end) {
      std::array<RowReader<T>, sizeof...(x)> from = {RowReader<T>(x, width)...};
      RowWriter<T> to(y, width);
      simd::run([&]<int W>() {
        constexpr int L = simd::lanes_of<T, W>;
        for (int64_t i = begin; i < end; ++i) {
          std::apply(
              [&](auto&... reader) {
                row.template operator()<L>(reader.template at<L>(i)..., to.at(i), width);
              },
              from);
          to.template commit<L>(i);
        }
      });
    });
  });
}

void softmax_cpu(const Stream&, const TensorView& x, const TensorView& y) {
  each_row(
      "softmax", []<int L, class T>(const T* from, T* to, int64_t n) { softmax_row<L>(from, to, n); }, y, x);
}

void softmax_backward_cpu(const Stream&, const TensorView& dy, const TensorView& y, const TensorView& dx) {
  auto row = []<int L, class T>(const T* d, const T* p, T* to, int64_t n) {
    softmax_backward_row<L>(d, p, to, n);
  };
  each_row("softmax_backward", row, dx, dy, y);
}

void log_softmax_cpu(const Stream&, const TensorView& x, const TensorView& y) {
  auto row = []<int L, class T>(const T* from, T* to, int64_t n) { log_softmax_row<L>(from, to, n); };
  each_row("log_softmax", row, y, x);
}

void log_softmax_backward_cpu(const Stream&, const TensorView& dy, const TensorView& y,
                              const TensorView& dx) {
  auto row = []<int L, class T>(const T* d, const T* p, T* to, int64_t n) {
    log_softmax_backward_row<L>(d, p, to, n);
  };
  each_row("log_softmax_backward", row, dx, dy, y);
}

}  // namespace

decltype(softmax) softmax{"softmax", softmax_cpu};
decltype(softmax_backward) softmax_backward{"softmax_backward", softmax_backward_cpu};
decltype(log_softmax) log_softmax{"log_softmax", log_softmax_cpu};
decltype(log_softmax_backward) log_softmax_backward{"log_softmax_backward", log_softmax_backward_cpu};

}  // namespace reprise::kernels
