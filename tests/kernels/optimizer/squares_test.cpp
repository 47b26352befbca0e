// Sums of squares by pieces: of tensors and of their parts the same, and norm_and_check made of them.
#include <gtest/gtest.h>

#include <cmath>

#include "reprise/core/stream.h"
#include "reprise/core/tensor.h"
#include "reprise/kernels/optimizer/gradient_norm.h"
#include "reprise/tests/support/compare.h"

namespace reprise::kernels {
namespace {

using testing::expect_error;

const Stream& stream() {
  static const Stream on_cpu = current_stream(Device::cpu());
  return on_cpu;
}

Tensor numbers(int64_t count, DType dtype, double first = 0.125) {
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(double(i)) * first;
  return Tensor::from(values, {count}).to(dtype);
}

std::vector<double> squares_of(const TensorList& tensors, int64_t pieces) {
  const std::vector<TensorView> views(tensors.begin(), tensors.end());
  const Tensor squares = Tensor::empty({pieces}, DType::f64);
  squares_of_pieces(stream(), views, squares);
  return squares.to_vector<double>();
}

TEST(SquaresOfPieces, ArePartsSquaresWhereverATensorIsCut) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const Tensor x = numbers(3 * kSquaresPiece + 7, dtype), y = numbers(5, dtype);
    const std::vector<double> whole = squares_of({x, y}, 5);
    const TensorList parts = {x.slice(0, 0, kSquaresPiece), x.slice(0, kSquaresPiece, x.numel()), y};
    EXPECT_EQ(squares_of(parts, 5), whole);
    double total = 0;
    for (double value : x.to_vector<double>()) total += value * value;
    EXPECT_NEAR(whole[0] + whole[1] + whole[2] + whole[3], total,
                1e-10 * total);  // f64 sums in another order
  }
  expect_error([] { squares_of({numbers(5, DType::f32)}, 2); }, "squares needs f64(1)");
}

TEST(CheckSquares, IsNormAndCheck) {
  const Tensor x = numbers(2 * kSquaresPiece, DType::f32, 3), y = numbers(9, DType::f32, 5);
  const Tensor scale = Tensor::from<float>({8}, {1});
  for (int bad = 0; bad < 2; ++bad) {
    if (bad) *(y.data<float>() + 4) = INFINITY;
    std::vector<std::vector<double>> results;
    for (bool by_squares : {false, true}) {
      const Tensor found = Tensor::empty({}, DType::i32), norm = Tensor::empty({}, DType::f64),
                   factor = Tensor::empty({}, DType::f64);
      const GradientCheck check{
          .scale = scale, .clip = 0.5, .found = found, .norm = norm, .gradient_scale = factor};
      const std::vector<TensorView> views = {x.view(), y.view()};
      if (by_squares)
        check_squares(squares_of({x, y}, 3), std::vector<int32_t>{0, 0, 1}, check);
      else
        norm_and_check(stream(), views, check);
      results.push_back({found.item(), norm.item(), factor.item()});
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0][0], bad ? 2 : 0);
  }
  const Tensor found = Tensor::empty({}, DType::i32), norm = Tensor::empty({}, DType::f64);
  const GradientCheck check{.found = found, .norm = norm, .gradient_scale = norm};
  expect_error([&] { check_squares(std::vector<double>{1}, {}, check); },
               "check_squares: 1 squares of 0 pieces");
}

}  // namespace
}  // namespace reprise::kernels
