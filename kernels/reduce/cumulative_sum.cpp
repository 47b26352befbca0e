// Row by row, one number after the other.  Bytes: x and y once.
#include "reprise/kernels/reduce/cumulative_sum.h"

#include <algorithm>
#include <vector>

#include "reprise/kernels/strided.h"

namespace reprise::kernels {
namespace {

void cumulative_sum_cpu(const Stream&, const TensorView& x, bool reverse, const TensorView& y) {
  check_cumulative_sum(x, y);
  if (y.numel() == 0) return;
  const int64_t length = x.shape.back();
  dispatch_compute(x.dtype, [&]<class C>() {
    using Sum = std::conditional_t<std::is_integral_v<C>, uint64_t, double>;
    parallel_for(x.numel() / length, std::max<int64_t>(1, kPiece / length), [&](int64_t begin, int64_t end) {
      Reader<C> reader(x, begin * length);
      Writer<C> writer(y, begin * length);
      std::vector<C> row(static_cast<size_t>(length));
      for (int64_t r = begin; r < end; ++r) {
        for_each_chunk(0, length, [&](int64_t first, int64_t count) {
          std::copy_n(reader.read(count), count, row.begin() + first);
        });
        auto add_up = [sum = Sum(0)](C& value) mutable { value = C(sum += Sum(value)); };
        if (reverse)
          std::for_each(row.rbegin(), row.rend(), add_up);
        else
          std::for_each(row.begin(), row.end(), add_up);
        for_each_chunk(0, length,
                       [&](int64_t first, int64_t count) { writer.write(row.data() + first, count); });
      }
    });
  });
}

}  // namespace

decltype(cumulative_sum) cumulative_sum{"cumsum", cumulative_sum_cpu};

}  // namespace reprise::kernels
