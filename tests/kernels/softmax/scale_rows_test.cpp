// Rows times a number each, against f64.
#include "reprise/kernels/softmax/scale_rows.h"

#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

/// Some rows are to stay as they are.
Array factors_of(int64_t rows, DType dtype) {
  return std::move(Array({rows}, accumulator_dtype(dtype), Layout::stepped).fill_with([](int64_t i) {
    return i % 3 == 1 ? 1.0 : 0.3 * double(i) - 0.7;
  }));
}

TEST(ScaleRows, MultipliesEachRowByItsOwnNumberOrAllByOne) {
  std::vector<Shape> shapes = {{5, 1}, {7, 5}, {67, 65}, {3, 1031}, {0, 5}, {3, 0}};
  for (const Shape& shape : cut_shapes())
    if (shape.size() == 2) shapes.push_back(shape);
  for (const Shape& shape : shapes)
    for (DType dtype : floating_dtypes)
      for (RowLayout layout : {RowLayout::contiguous, RowLayout::padded})
        for (bool each : {true, false}) {
          RowArray x(shape, dtype, layout), y(shape, dtype, layout);
          x.fill(77).randomize(1);
          y.fill(77);
          const Array numbers = factors_of(each ? shape[0] : 1, dtype);
          const TensorView factors = each ? numbers.view() : expand(numbers.view(), {shape[0]});
          std::vector<double> want = x.values();
          const std::vector<double> f = values_of(factors);
          for (size_t i = 0; i < want.size(); ++i) want[i] *= f[i / size_t(shape[1])];
          const std::string what = describe(shape, dtype, Layout(layout));
          run_kernel(scale_rows, x.view(), factors, y.view());
          expect_near(y.values(), want, epsilon_of(dtype), what);  // two roundings of half of that
          EXPECT_TRUE(layout == RowLayout::contiguous || y.gaps_hold(77)) << what;
          const std::vector<double> apart = y.values();
          run_kernel(scale_rows, x.view(), factors, x.view());
          EXPECT_EQ(x.values(), apart) << "in place, " << what;
        }
}

TEST(ScaleRows, RefusesWhatDoesNotFit) {
  RowArray x({2, 3}, DType::f32), half({2, 3}, DType::bf16);
  Array factors({2}, DType::f32), three({3}, DType::f32), wide({2}, DType::f64);
  auto refuses = [&](const RowArray& y, const Array& by, const char* message) {
    expect_error([&] { run_kernel(scale_rows, x.view(), by.view(), y.view()); }, message);
  };
  refuses(half, factors, "scale_rows: y is bf16, should be f32");
  refuses(x, three, "scale_rows: factors has shape (3,), should have (2,)");
  refuses(x, wide, "scale_rows: factors is f64, should be f32");
}

}  // namespace
}  // namespace reprise::kernels
