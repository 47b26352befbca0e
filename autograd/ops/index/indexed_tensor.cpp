// Assignments to x[places].
#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops/elementwise/assign.h"
#include "reprise/autograd/ops/index/indexing.h"

namespace reprise {
namespace {

using Steps = std::span<const std::vector<Index>>;

// Whether x[places] is a view of x.
bool gives_view(const std::vector<Index>& places) {
  return std::ranges::none_of(places,
                              [](const Index& i) { return std::holds_alternative<Tensor>(i.item()); });
}

// x, then x[path[0]][path[1]]... = values: a tensor of its own.
template <class Values>
Tensor with(const Tensor& x, Steps path, const Values& values) {
  if (path.size() == 1) return index_put(x, path[0], values);
  return index_put(x, path[0], with(index(x, path[0]), path.subspan(1), values));
}

bool requires_grad(const Tensor& x) { return x.defined() && x.requires_grad(); }
bool requires_grad(double) { return false; }

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
  if (autograd::grad_mode_enabled() && (requires_grad(x) || requires_grad(values))) {
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

// The temporary's own view is let go before x changes: nobody could read it afterwards.
template <class Values>
void IndexedTensor::assign(const Values& values) {
  check(x_, "=: a variable is no place in a tensor");
  Tensor::operator=(Tensor());
  put(*std::exchange(x_, nullptr), path_, values);
}
void IndexedTensor::operator=(const Tensor& values) && { assign(values); }
void IndexedTensor::operator=(const IndexedTensor& values) && { assign<Tensor>(values); }
void IndexedTensor::operator=(double value) && { assign(value); }

// Where f writes through the view x has it already.
template <class F>
void IndexedTensor::change(const F& f) {
  Tensor value = *this;
  f(value);
  const bool written = is_same(value) && std::ranges::all_of(path_, gives_view);
  if (!written) assign(value);
}
void IndexedTensor::operator+=(const Tensor& b) && {
  change([&](Tensor& a) { a += b; });
}
void IndexedTensor::operator-=(const Tensor& b) && {
  change([&](Tensor& a) { a -= b; });
}
void IndexedTensor::operator*=(const Tensor& b) && {
  change([&](Tensor& a) { a *= b; });
}
void IndexedTensor::operator/=(const Tensor& b) && {
  change([&](Tensor& a) { a /= b; });
}
void IndexedTensor::operator+=(double b) && {
  change([&](Tensor& a) { a += b; });
}
void IndexedTensor::operator-=(double b) && {
  change([&](Tensor& a) { a -= b; });
}
void IndexedTensor::operator*=(double b) && {
  change([&](Tensor& a) { a *= b; });
}
void IndexedTensor::operator/=(double b) && {
  change([&](Tensor& a) { a /= b; });
}

IndexedTensor IndexedTensor::operator[](const Index& place) && { return std::move(*this)[{place}]; }
IndexedTensor IndexedTensor::operator[](std::initializer_list<Index> places) && {
  Path path = path_;
  path.emplace_back(places);
  return {x_, std::move(path), index(places)};
}

}  // namespace reprise
