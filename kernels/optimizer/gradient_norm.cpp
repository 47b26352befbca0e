// Norms and checks of gradients on the CPU: each element is read once, the pieces of all tensors are the tasks of one loop.
#include "reprise/kernels/optimizer/gradient_norm.h"

#include <algorithm>
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

static_assert(kSquaresPiece == kPiece);

/// The sum of squares of each piece of each tensor, in order.
std::vector<double> squares_of(std::span<const TensorView> tensors) {
  auto size = [&](size_t t) { return tensors[t].numel(); };
  int64_t pieces = 0;
  for (size_t t = 0; t < tensors.size(); ++t) pieces += pieces_of(size(t));
  std::vector<double> squares(static_cast<size_t>(pieces));
  for_each_piece(tensors.size(), size, [&](size_t t, int64_t task, int64_t begin, int64_t end) {
    dispatch_compute(tensors[t].dtype, [&]<class C>() {
      Reader<C> reader(tensors[t], begin);
      for_each_chunk(begin, end, [&](int64_t, int64_t count) {
        if constexpr (!std::is_integral_v<C>)
          squares[size_t(task)] += sum_of_squares(reader.read(count), count);
      });
    });
  });
  return squares;
}

double sum_of(std::span<const double> numbers) {
  double total = 0;
  for (double number : numbers) total += number;
  return total;
}

void global_norm_cpu(const Stream&, std::span<const TensorView> tensors, const TensorView& norm) {
  check_over_tensors("global_norm", tensors, "norm", norm, DType::f64);
  *norm.as<double>() = std::sqrt(sum_of(squares_of(tensors)));
}

/// What follows from the squares of all pieces; piece p is one of tensor place_of(p).
void write_numbers(std::span<const double> squares, const auto& place_of, const GradientCheck& given) {
  const auto bad = std::ranges::find_if(squares, [](double sum) { return !std::isfinite(sum); });
  const double inverse = given.scale ? 1 / double(*given.scale.as<float>()) : 1;
  const double norm = std::sqrt(sum_of(squares)) * inverse;
  *given.found.as<int32_t>() = bad == squares.end() ? 0 : place_of(size_t(bad - squares.begin())) + 1;
  *given.norm.as<double>() = norm;
  *given.gradient_scale.as<double>() =
      given.clip > 0 ? inverse * std::min(1.0, given.clip / (norm + 1e-6)) : inverse;
}

void norm_and_check_cpu(const Stream&, std::span<const TensorView> tensors, const GradientCheck& given) {
  check_norm_and_check(tensors, given);
  std::vector<int32_t> places;
  for (size_t t = 0; t < tensors.size(); ++t)
    places.insert(places.end(), size_t(pieces_of(tensors[t].numel())), int32_t(t));
  write_numbers(
      squares_of(tensors), [&](size_t piece) { return places[piece]; }, given);
}

void squares_of_pieces_cpu(const Stream&, std::span<const TensorView> tensors, const TensorView& squares) {
  check_squares_of_pieces(tensors, squares);
  std::ranges::copy(squares_of(tensors), squares.as<double>());
}

void check_squares_cpu(const Stream&, const PieceSquares& pieces, const GradientCheck& given) {
  check_piece_squares(pieces, given);
  std::vector<double> in_order;
  for (int64_t i = 0; i < pieces.order.numel(); ++i)
    in_order.push_back(pieces.squares.as<double>()[pieces.order.as<int32_t>()[i]]);
  write_numbers(
      in_order, [&](size_t piece) { return pieces.places.as<int32_t>()[piece]; }, given);
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
decltype(squares_of_pieces) squares_of_pieces{"squares_of_pieces", squares_of_pieces_cpu};
decltype(check_squares) check_squares{"check_squares", check_squares_cpu};

}  // namespace reprise::kernels
