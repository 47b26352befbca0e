// Views whose elements share memory, against a list of all places.
#include "reprise/core/overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace reprise {
namespace {

// Places of all elements, one by one.
bool shares_a_place(const TensorView& x) {
  std::vector<int64_t> places{0};
  for (int d = 0; d < x.rank(); ++d) {
    std::vector<int64_t> next;
    for (int64_t place : places)
      for (int64_t i = 0; i < x.shape[d]; ++i) next.push_back(place + i * x.strides[d]);
    places = next;
  }
  std::sort(places.begin(), places.end());
  return std::adjacent_find(places.begin(), places.end()) != places.end();
}

TEST(OverlapsItself, IsExactForAllStrides) {
  for (int64_t rows : {0, 1, 2, 3})
    for (int64_t columns : {1, 2, 4})
      for (int64_t row_stride = 0; row_stride < 6; ++row_stride)
        for (int64_t column_stride = 0; column_stride < 6; ++column_stride) {
          TensorView x{nullptr, {rows, columns}, {row_stride, column_stride}, DType::f32, Device::cpu()};
          EXPECT_EQ(overlaps_itself(x), shares_a_place(x)) << x.shape << ' ' << x.strides;
        }
}

TEST(RangesMeet, ComparesFirstToLastBytes) {
  std::vector<float> data(12);
  auto row = [&](int64_t first, int64_t count) {
    return TensorView{data.data() + first, {count}, {1}, DType::f32, Device::cpu()};
  };
  EXPECT_FALSE(ranges_meet(row(0, 6), row(6, 6)));
  EXPECT_TRUE(ranges_meet(row(0, 7), row(6, 6)));
  EXPECT_TRUE(ranges_meet(row(3, 1), row(0, 12)));
  EXPECT_FALSE(ranges_meet(row(3, 0), row(0, 12)));
}

}  // namespace
}  // namespace reprise
