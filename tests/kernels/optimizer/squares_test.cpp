// Sums of squares by pieces against loops in f64: of tensors of any strides, and of their parts the same; and norm_and_check
// made of them, wherever they stand.
// slow in tsan
#include <cmath>
#include <deque>

#include "reprise/kernels/optimizer/gradient_norm.h"
#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

int64_t pieces_of(const std::vector<TensorView>& tensors) {
  int64_t pieces = 0;
  for (const TensorView& x : tensors) pieces += (x.numel() + kSquaresPiece - 1) / kSquaresPiece;
  return pieces;
}

std::vector<double> squares_of(const std::vector<TensorView>& tensors) {
  Array squares({pieces_of(tensors)}, DType::f64);
  run_kernel(squares_of_pieces, tensors, squares.view());
  return squares.values();
}

TEST(SquaresOfPieces, AreThoseOfEachPieceInOrder) {
  for (Layout layout : layouts) {
    std::deque<Array> arrays;
    std::vector<TensorView> views;
    std::vector<double> want;
    for (const Shape& shape : std::vector<Shape>{{2 * kSquaresPiece + 5}, {3}, {0}, {130, 257}})
      for (DType dtype : {DType::bf16, DType::f32, DType::f64, DType::f16}) {
        Array& x = arrays.emplace_back(shape, dtype, layout);
        views.push_back(x.randomize(arrays.size(), -1, 1).view());
        const std::vector<double> values = x.values();
        for (size_t i = 0; i < values.size(); ++i) {
          if (i % size_t(kSquaresPiece) == 0) want.push_back(0);
          want.back() += values[i] * values[i];
        }
      }
    expect_near(squares_of(views), want, 1e-12 * double(kSquaresPiece), "squares");  // f64 in another order
  }
}

TEST(SquaresOfPieces, ArePartsSquaresWhereverATensorIsCut) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    Array x({3 * kSquaresPiece + 7}, dtype), y({5}, dtype);
    const TensorView whole = x.randomize(1).view(), other = y.randomize(2).view();
    TensorView first = whole, rest = whole;
    first.shape = {kSquaresPiece};
    rest.shape = {whole.numel() - kSquaresPiece};
    rest.data = static_cast<char*>(rest.data) + size_t(kSquaresPiece) * size_of(dtype);
    EXPECT_EQ(squares_of({first, rest, other}), squares_of({whole, other}));
  }
}

TEST(SquaresOfPieces, RefusesAnotherCount) {
  Array x({5}, DType::f32), two({2}, DType::f64);
  const std::vector<TensorView> views = {x.view()};
  expect_error([&] { run_kernel(squares_of_pieces, views, two.view()); },
               "squares_of_pieces: squares needs f64(1)");
}

std::vector<double> numbers_of(const auto& run) {
  Array scale({}, DType::f32), found({}, DType::i32), norm({}, DType::f64), factor({}, DType::f64);
  scale.fill_with([](int64_t) { return 8; });
  run(GradientCheck{scale.view(), 0.5, found.view(), norm.view(), factor.view()});
  return {found.values()[0], norm.values()[0], factor.values()[0]};
}

// 320 tensors of one to three pieces, whose squares stand backwards with a gap between each two.
TEST(CheckSquares, HasTheBitsOfNormAndCheck) {
  std::deque<Array> arrays;
  std::vector<TensorView> views;
  std::vector<int32_t> place_of;
  for (int t = 0; t < 320; ++t) {
    const int64_t pieces = t % 100 == 7 ? 3 : 1;
    const DType dtype = t % 3 ? DType::f32 : DType::bf16;
    Array& x = arrays.emplace_back(Shape{(pieces - 1) * kSquaresPiece + 1 + t % 5}, dtype);
    views.push_back(x.randomize(uint64_t(t), -2, 2).view());
    place_of.insert(place_of.end(), size_t(pieces), t);
  }
  const auto count = int64_t(place_of.size());
  Array squares({2 * count}, DType::f64), order({count}, DType::i32), places({count}, DType::i32);
  auto stands_at = [&](int64_t piece) { return 2 * (count - 1 - piece); };
  order.fill_with([&](int64_t piece) { return double(stands_at(piece)); });
  places.fill_with([&](int64_t piece) { return double(place_of[size_t(piece)]); });
  for (const std::vector<size_t>& bad : {std::vector<size_t>{}, {319}, {319, 207}, {0}}) {
    for (size_t t : bad) set_element(views[t], views[t].numel() - 1, nan);
    const std::vector<double> in_order = squares_of(views);
    squares.fill_with([&](int64_t at) { return at % 2 ? nan : in_order[size_t(count - 1 - at / 2)]; });
    const auto want =
        numbers_of([&](const GradientCheck& check) { run_kernel(norm_and_check, views, check); });
    const auto got = numbers_of([&](const GradientCheck& check) {
      run_kernel(check_squares, PieceSquares{squares.view(), order.view(), places.view()}, check);
    });
    EXPECT_EQ(got[0], bad.empty() ? 0 : double(bad.back()) + 1);
    EXPECT_EQ(got[0], want[0]);
    if (!bad.empty()) continue;
    EXPECT_EQ(got, want);
  }
}

TEST(CheckSquares, RefusesListsThatDoNotFit) {
  Array squares({3}, DType::f64), order({3}, DType::i32), places({2}, DType::i32);
  auto run = [](const PieceSquares& pieces) {
    return [=] { numbers_of([&](const GradientCheck& check) { run_kernel(check_squares, pieces, check); }); };
  };
  expect_error(run({squares.view(), order.view(), places.view()}), "check_squares: 3 squares of 2 pieces");
  expect_error(run({order.view(), order.view(), order.view()}), "squares needs a list of f64");
}

}  // namespace
}  // namespace reprise::kernels
