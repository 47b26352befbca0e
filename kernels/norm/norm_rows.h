// The rows that a norm normalises on the CPU: those of x, or of x and a residual added up; and those that its gradient is
// added to.
#pragma once

#include <algorithm>
#include <vector>

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

/// dx where its rows are to be added to others, which may be dx's own.
template <class T>
class AddedRows {
 public:
  explicit AddedRows(const NormBackwardArguments& v)
      : width_(v.x.size(-1)),
        addend_(v.addend, width_),
        stored_(v.dx, width_),
        dx_(v.dx, width_),
        kept_(v.addend ? size_t(width_) : 0) {}

  /// Where to write row `row`, null if there is no dx; `commit` must follow.
  template <int L>
  [[gnu::always_inline]] T* at(int64_t row) {
    if (!kept_.empty()) std::copy_n(addend_.template at<L>(row), width_, kept_.data());
    return dx_.at(row);
  }
  template <int L>
  [[gnu::always_inline]] void commit(int64_t row) {
    dx_.template commit<L>(row);
    if (kept_.empty()) return;
    add_rows<L>(kept_.data(), stored_.template at<L>(row), dx_.at(row), width_);
    dx_.template commit<L>(row);
  }

 private:
  int64_t width_;
  RowReader<T> addend_, stored_;
  RowWriter<T> dx_;
  std::vector<T> kept_;
};

}  // namespace reprise::kernels
