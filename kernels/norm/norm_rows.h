// The rows that a norm normalises on the CPU: those of x, or of x and a residual added up.
#pragma once

#include "reprise/kernels/cpu/row_access.h"
#include "reprise/kernels/norm/norm.h"

namespace reprise::kernels {

template <class T>
class NormRows {
 public:
  explicit NormRows(const NormArguments& v)
      : width_(v.x.size(-1)),
        x_(v.x, width_),
        residual_(v.residual, width_),
        stored_(v.sum, width_),
        sum_(v.sum, width_),
        adds_(v.residual) {}

  /// Row `row`, until the next call; a sum is written first, and is what was stored.
  template <int L>
  [[gnu::always_inline]] const T* at(int64_t row) {
    const T* x = x_.template at<L>(row);
    if (!adds_) return x;
    add_rows<L>(x, residual_.template at<L>(row), sum_.at(row), width_);
    sum_.template commit<L>(row);
    return stored_.template at<L>(row);
  }

 private:
  int64_t width_;
  RowReader<T> x_, residual_, stored_;
  RowWriter<T> sum_;
  bool adds_;
};

}  // namespace reprise::kernels
