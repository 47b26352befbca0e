// A stable sort of each row's places.
#include "reprise/kernels/index/argsort.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "reprise/kernels/strided.h"

namespace reprise::kernels {
namespace {

/// NaN is largest.
template <class C>
bool is_before(C a, C b) {
  return a < b || (b != b && a == a);
}

void argsort_cpu(const Stream&, const TensorView& x, bool descending, const TensorView& y) {
  check_argsort(x, y);
  if (y.numel() == 0) return;
  const int64_t length = x.shape.back();
  dispatch_compute(x.dtype, [&]<class C>() {
    parallel_for(x.numel() / length, std::max<int64_t>(1, kPiece / length), [&](int64_t begin, int64_t end) {
      Reader<C> reader(x, begin * length);
      Writer<int64_t> writer(y, begin * length);
      std::vector<C> row(static_cast<size_t>(length));
      std::vector<int64_t> places(row.size());
      for (int64_t r = begin; r < end; ++r) {
        for_each_chunk(0, length, [&](int64_t first, int64_t count) {
          std::copy_n(reader.read(count), count, row.begin() + first);
        });
        std::iota(places.begin(), places.end(), int64_t(0));
        std::ranges::stable_sort(places, [&](int64_t i, int64_t j) {
          const C a = row[size_t(i)], b = row[size_t(j)];
          return descending ? is_before(b, a) : is_before(a, b);
        });
        for_each_chunk(0, length,
                       [&](int64_t first, int64_t count) { writer.write(places.data() + first, count); });
      }
    });
  });
}

}  // namespace

decltype(argsort) argsort{"argsort", argsort_cpu};

}  // namespace reprise::kernels
