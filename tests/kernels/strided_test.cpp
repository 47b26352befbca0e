// Merging dimensions and walking: every offset, from every start, against index arithmetic.
#include "reprise/kernels/strided.h"

#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {
namespace {

/// The offsets of the elements from number `start` on, as a Walk visits them in runs of at most `step`.
std::vector<int64_t> walked(TensorView view, int64_t start, int64_t step) {
  collapse({&view, 1});
  Walk walk(view, start);
  std::vector<int64_t> offsets;
  for (int64_t at = start; at < view.numel(); at += step)
    for_each_run(walk, std::min(step, view.numel() - at),
                 [&](int64_t offset, int64_t stride, int64_t, int64_t run) {
                   for (int64_t i = 0; i < run; ++i) offsets.push_back(offset + i * stride);
                 });
  return offsets;
}

TEST(Walk, VisitsEveryOffsetFromEveryStart) {
  Array base({4, 4, 4}, DType::f32);
  std::vector<TensorView> views;
  for (const Dims& order : {Dims{0, 1, 2}, Dims{2, 1, 0}, Dims{1, 2, 0}}) {
    TensorView x = permute(base.view(), order);
    // Slices of a cube: strides that equal a neighbour's size without being contiguous with it.
    for (int dim = 0; dim < 3; ++dim)
      for (int64_t end : {1, 3, 4}) views.push_back(slice(x, dim, 0, end));
    views.push_back(slice(slice(x, 1, 0, 3), 2, 1, 4));
    views.push_back(slice(slice(x, 0, 0, 4, 2), 2, 0, 4, 2));
    views.push_back(expand(slice(x, 1, 0, 1), {4, 3, 4}));
    views.push_back(select(x, 1, 2));
  }
  views.push_back(select(select(select(base.view(), 0, 1), 0, 1), 0, 1));
  for (const TensorView& view : views)
    for (int64_t start = 0; start < view.numel(); start += 5) {
      std::vector<int64_t> want;
      for (int64_t i = start; i < view.numel(); ++i) want.push_back(offset_of(view, i));
      for (int64_t step : {1, 3, 100})
        EXPECT_EQ(walked(view, start, step), want) << view.shape << " " << view.strides << " from " << start;
    }
}

TEST(Collapse, MergesWhereAllViewsAllow) {
  Array x({3, 5, 7}, DType::f32), y({3, 5, 7}, DType::f32);
  std::array<TensorView, 2> alike = {x.view(), y.view()};
  collapse(alike);
  EXPECT_EQ(alike[0].shape, (Shape{105}));
  Array wide({3, 5, 9}, DType::f32);
  std::array<TensorView, 2> sliced = {x.view(), slice(wide.view(), 2, 0, 7)};
  collapse(sliced);
  EXPECT_EQ(sliced[0].shape, (Shape{15, 7}));
  EXPECT_EQ(sliced[1].strides, (Strides{9, 1}));
}

TEST(OrderLikeLast, MakesTheLastViewsStridesDescend) {
  Array x({3, 5, 7}, DType::f32), y({3, 5, 7}, DType::f32, Layout::reversed);
  std::array<TensorView, 2> views = {x.view(), y.view()};
  order_like_last(views);
  EXPECT_EQ(views[1].shape, (Shape{7, 5, 3}));
  EXPECT_EQ(views[1].strides, (Strides{15, 3, 1}));
  EXPECT_EQ(views[0].strides, (Strides{1, 7, 35}));
}

}  // namespace
}  // namespace reprise::kernels::testing
