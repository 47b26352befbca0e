// Comparing the bytes of tensors, on the host.
#include "reprise/train/same_bits.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "reprise/autograd/grad_mode.h"

namespace reprise::train {
namespace {

using reprise::detail::join;

const char* bytes_of(const Tensor& x) { return static_cast<const char*>(x.view().data); }

std::string differing_elements(const Tensor& got, const Tensor& want) {
  size_t size = size_of(got.dtype());
  int64_t count = 0, first = 0;
  for (int64_t i = got.numel(); i-- > 0;) {
    if (std::memcmp(bytes_of(got) + size_t(i) * size, bytes_of(want) + size_t(i) * size, size) == 0) continue;
    ++count;
    first = i;
  }
  int digits = got.dtype() == DType::f64 ? 17 : 9;  // tell any two values apart
  return fmt::format("{} of {} elements, the first at {}: {:.{}g} instead of {:.{}g}", count, got.numel(),
                     first, got.to_vector<double>()[size_t(first)], digits,
                     want.to_vector<double>()[size_t(first)], digits);
}

std::string difference(const Tensor& got, const Tensor& want) {
  if (got.defined() != want.defined())
    return got.defined() ? "there is one, and should be none" : "there is none";
  if (!got.defined()) return {};
  if (got.shape() != want.shape()) return join("shape ", got.shape(), " instead of ", want.shape());
  if (got.dtype() != want.dtype()) return join("dtype ", got.dtype(), " instead of ", want.dtype());
  NoGrad guard;
  Tensor a = got.to(Device::cpu()).contiguous(), b = want.to(Device::cpu()).contiguous();
  bool same = std::memcmp(bytes_of(a), bytes_of(b), size_t(a.numel()) * size_of(a.dtype())) == 0;
  return same ? std::string() : differing_elements(a, b);
}

}  // namespace

std::vector<Difference> differences(const nn::NamedTensors& got, const nn::NamedTensors& want) {
  std::vector<Difference> all;
  for (size_t i = 0; i < std::max(got.size(), want.size()); ++i) {
    if (i >= got.size() || i >= want.size() || got[i].first != want[i].first) {
      all.push_back({i < got.size() ? got[i].first : want[i].first,
                     join("it stands at place ", i, " of one list only")});
      continue;
    }
    std::string what = difference(got[i].second, want[i].second);
    if (!what.empty()) all.push_back({got[i].first, what});
  }
  return all;
}

}  // namespace reprise::train
