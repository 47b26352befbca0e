// Finding a tensor in the memory of another one.
#include "reprise/autograd/recompute/replay/op_record.h"

#include "reprise/core/overlap.h"

namespace reprise::recompute {
namespace {

bool same_form(const TensorView& a, const TensorView& b) {
  return a.shape == b.shape && a.strides == b.strides && a.dtype == b.dtype;
}

}  // namespace

RelativeView::RelativeView(const TensorView& view, const TensorView& of_base)
    : layout(view),
      base(of_base),
      offset(static_cast<const char*>(view.data) - static_cast<const char*>(of_base.data)) {
  layout.data = base.data = nullptr;
}

bool RelativeView::is_whole() const { return offset == 0 && same_form(layout, base); }

bool RelativeView::is_inside() const {
  return offset >= 0 && size_t(offset) + bytes_spanned(layout) <= bytes_spanned(base);
}

bool RelativeView::fits(const Tensor& other) const {
  return is_whole() || (is_inside() && !other.is_hollow() && same_form(other.view(), base));
}

Tensor RelativeView::of(const Tensor& other) const {
  TensorView view = is_whole() ? other.view() : layout;
  view.data = static_cast<char*>(other.view().data) + offset;
  return other.alias(view);
}

}  // namespace reprise::recompute
