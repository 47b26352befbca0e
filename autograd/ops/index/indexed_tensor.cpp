// Assignments to x[places].
#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/fits.h"
#include "reprise/autograd/ops/index/indexing.h"

namespace reprise {
namespace {

using Steps = std::span<const std::vector<Index>>;

// Whether x[places] is a view of x.
bool gives_view(const std::vector<Index>& places) {
  return std::ranges::none_of(places,
                              [](const Index& i) { return std::holds_alternative<Tensor>(i.item()); });
}

bool are_numbers(const std::vector<Index>& places) {
  return std::ranges::all_of(places,
                             [](const Index& i) { return std::holds_alternative<int64_t>(i.item()); });
}

// x, then x[path[0]][path[1]]... = values: a tensor of its own.
template <class Values>
Tensor with(const Tensor& x, Steps path, const Values& values) {
  if (path.size() == 1) return index_put(x, path[0], values);
  return index_put(x, path[0], with(index(x, path[0]), path.subspan(1), values));
}

bool requires_grad(const Tensor& x) { return x.defined() && x.requires_grad(); }
bool requires_grad(double) { return false; }
bool has_dtype(const Tensor& x, DType dtype) { return x.dtype() == dtype; }
bool has_dtype(double, DType) { return true; }

// An observer, such as a region, sees the same operations with and without a graph.
template <class Values>
void put(const Tensor& x, Steps path, const Values& values) {
  if (path.size() == 1) {
    x.index_put_(path[0], values);
    return;
  }
  for (const auto& places : path.first(path.size() - 1))
    check(gives_view(places),
          "x[places][more] = ...: a mask or places give a copy of what is there, and what "
          "is put into that would be lost");
  if (autograd::OpObserver::any() ||
      (autograd::grad_mode_enabled() && (requires_grad(x) || requires_grad(values)))) {
    const Tensor inner = with(index(x, path[0]), path.subspan(1), values);
    x.index_put_(path[0], inner);
  } else {
    put(index(x, path[0]), path.subspan(1), values);  // through the view
  }
}

}  // namespace

IndexedTensor& IndexedTensor::operator=(const Tensor& other) & {
  Tensor::operator=(other);
  x_ = nullptr;
  return *this;
}
IndexedTensor& IndexedTensor::operator=(const IndexedTensor& other) & {
  return *this = static_cast<const Tensor&>(other);
}

// The tensor that these are places of. The temporary's own view is let go before that changes: nobody could read it afterwards.
const Tensor& IndexedTensor::target() {
  check(x_, "=: a variable is no place in a tensor");
  Tensor::operator=(Tensor());
  return *std::exchange(x_, nullptr);
}

template <class Values>
void IndexedTensor::assign(const Values& values) {
  put(target(), path_, values);
}
void IndexedTensor::operator=(const Tensor& values) && { assign(values); }
void IndexedTensor::operator=(const IndexedTensor& values) && { assign<Tensor>(values); }
void IndexedTensor::operator=(double value) && { assign(value); }

// Out of place, so that the operations are the same where a graph is recorded and where none is.
template <class B, class F>
void IndexedTensor::change(const char* op, const B& b, const F& f) {
  autograd::check_fits(op, *this, b);
  const Tensor value = autograd::fitting(op, *this, f(*this, b));
  assign(value);
}

// Added in one operation where no place can stand there twice: its backward does not read what is beside the places.
template <class B>
void IndexedTensor::add(const char* op, const B& b, double sign) {
  autograd::check_fits(op, *this, b);
  if (path_.size() == 1 && gives_view(path_[0]) && has_dtype(b, dtype()))
    target().index_put_(path_[0], sign > 0 ? b : -b, /*accumulate=*/true);
  else
    change(op, b, [&](const Tensor& a, const B& c) { return sign > 0 ? a + c : a - c; });
}

void IndexedTensor::operator+=(const Tensor& b) && { add("+=", b, 1); }
void IndexedTensor::operator-=(const Tensor& b) && { add("-=", b, -1); }
void IndexedTensor::operator*=(const Tensor& b) && {
  change("*=", b, [](const Tensor& a, const Tensor& c) { return a * c; });
}
void IndexedTensor::operator/=(const Tensor& b) && {
  change("/=", b, [](const Tensor& a, const Tensor& c) { return a / c; });
}
void IndexedTensor::operator+=(double b) && { add("+=", b, 1); }
void IndexedTensor::operator-=(double b) && { add("-=", b, -1); }
void IndexedTensor::operator*=(double b) && {
  change("*=", b, [](const Tensor& a, double c) { return a * c; });
}
void IndexedTensor::operator/=(double b) && {
  change("/=", b, [](const Tensor& a, double c) { return a / c; });
}

IndexedTensor IndexedTensor::operator[](const Index& place) && { return std::move(*this)[{place}]; }
IndexedTensor IndexedTensor::operator[](std::initializer_list<Index> places) && {
  Path path = path_;
  if (are_numbers(path.back()))
    path.back().insert(path.back().end(), places.begin(), places.end());  // x[i][j] is x[{i, j}]
  else
    path.emplace_back(places);
  const Tensor inner = index(places);
  Tensor::operator=(Tensor());  // else it would hold x's memory until the statement ends
  return {std::exchange(x_, nullptr), std::move(path), inner};
}

}  // namespace reprise
