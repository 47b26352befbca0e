// How a side of a block is cut into what its tasks multiply (blocks.h): strips of whole panels.
#pragma once

#include <algorithm>
#include <cstdint>

namespace reprise::kernels::gemm_detail {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

class Strips {
 public:
  struct Strip {
    int64_t first, count;  ///< rows or columns; none, where its thread's section is shorter than another's
  };

  /// `length` rows or columns, in panels of `width`, cut into equal strips.
  Strips(int64_t length, int64_t width, int64_t panels) : Strips(length, width, 1, panels, panels) {}

  /// A section for each of `threads`, that begin there (core/parallel.cpp, Note [Shares]). A section's strips have `thick`
  /// panels and towards its end ever fewer, down to `thinnest`, so that threads of unequal speed end together.
  Strips(int64_t length, int64_t width, int64_t threads, int64_t thick, int64_t thinnest)
      : length_(length),
        width_(width),
        panels_(ceil_div(length, width)),
        sections_(threads),
        thick_(thick),
        thinnest_(thinnest),
        full_(std::max<int64_t>(0, longest() - thick + 1) / thick),
        per_section_(full_) {
    for (int64_t left = longest() - full_ * thick; left > 0; left -= next(left)) ++per_section_;
  }

  int64_t count() const { return sections_ * per_section_; }

  Strip operator[](int64_t number) const {
    const int64_t section = number / per_section_, end = (section + 1) * panels_ / sections_;
    const int64_t before = number % per_section_, full = std::min(before, full_);
    int64_t panel = section * panels_ / sections_ + full * thick_, left = longest() - full * thick_;
    for (int64_t i = full; i < before; ++i) {
      panel += next(left);
      left -= next(left);
    }
    const int64_t first = panel * width_, panels = std::min(next(left), end - panel);
    return {first, std::min(panels * width_, length_ - first)};
  }

 private:
  int64_t longest() const { return ceil_div(panels_, sections_); }
  /// Panels of the next strip of a section of which so many are left.
  int64_t next(int64_t left) const { return std::min(thick_, std::max(thinnest_, ceil_div(left, 2))); }

  int64_t length_, width_, panels_, sections_, thick_, thinnest_;
  int64_t full_;  ///< strips of `thick_` panels in a section
  int64_t per_section_;
};

}  // namespace reprise::kernels::gemm_detail
