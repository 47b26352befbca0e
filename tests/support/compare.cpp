// Element-wise comparison with messages.
#include "reprise/tests/support/compare.h"

#include <cmath>
#include <cstring>

#include "reprise/autograd/grad_mode.h"

namespace reprise::testing {

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-53;
    case DType::f32:
      return 0x1p-24;
    case DType::bf16:
      return 0x1p-8;
    case DType::f16:
      return 0x1p-11;
    default:
      return 0;
  }
}

::testing::AssertionResult is_close(const std::vector<double>& got, const std::vector<double>& want,
                                    double tolerance) {
  if (got.size() != want.size())
    return ::testing::AssertionFailure() << got.size() << " elements, want " << want.size();
  double scale = 1;
  for (double value : want)
    if (std::isfinite(value)) scale = std::max(scale, std::fabs(value));
  size_t worst = 0;
  double worst_error = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    bool same = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]));
    double error = same ? 0 : std::fabs(got[i] - want[i]);
    if (std::isnan(error)) error = HUGE_VAL;
    if (error > worst_error) {
      worst = i;
      worst_error = error;
    }
  }
  if (worst_error <= tolerance * scale) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "element " << worst << ": got " << got[worst] << ", want " << want[worst] << ", error "
         << worst_error << " above " << tolerance * scale;
}

::testing::AssertionResult is_close(const Tensor& got, const Tensor& want, double tolerance) {
  if (!got.defined() || !want.defined())
    return ::testing::AssertionFailure() << (got.defined() ? "want" : "got") << " an undefined tensor";
  if (!(got.shape() == want.shape()))
    return ::testing::AssertionFailure() << "shape " << got.shape() << ", want " << want.shape();
  return is_close(got.to_vector<double>(), want.to_vector<double>(), tolerance);
}

std::vector<unsigned char> bytes_of(const Tensor& x) {
  NoGrad guard;
  Tensor flat = x.contiguous().to(Device::cpu());
  std::vector<unsigned char> bytes(size_t(flat.numel()) * size_of(flat.dtype()));
  if (!bytes.empty()) std::memcpy(bytes.data(), flat.view().data, bytes.size());
  return bytes;
}

::testing::AssertionResult same_bits(const Tensor& got, const Tensor& want) {
  if (!got.defined() && !want.defined()) return ::testing::AssertionSuccess();
  if (!got.defined() || !want.defined())
    return ::testing::AssertionFailure() << (got.defined() ? "want" : "got") << " an undefined tensor";
  if (!(got.shape() == want.shape()) || got.dtype() != want.dtype())
    return ::testing::AssertionFailure()
           << got.dtype() << got.shape() << ", want " << want.dtype() << want.shape();
  std::vector<unsigned char> a = bytes_of(got), b = bytes_of(want);
  auto [first, second] = std::mismatch(a.begin(), a.end(), b.begin());
  if (first == a.end()) return ::testing::AssertionSuccess();
  size_t at = size_t(first - a.begin()) / size_of(got.dtype());
  return ::testing::AssertionFailure() << "element " << at << ": got " << got.to_vector<double>()[at]
                                       << ", want the same bits as " << want.to_vector<double>()[at];
}

::testing::AssertionResult same_bits(const TensorList& got, const TensorList& want) {
  if (got.size() != want.size())
    return ::testing::AssertionFailure() << got.size() << " tensors, want " << want.size();
  for (size_t i = 0; i < want.size(); ++i)
    if (auto same = same_bits(got[i], want[i]); !same)
      return ::testing::AssertionFailure() << "tensor " << i << ": " << same.message();
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult same_bits(const std::vector<std::pair<std::string, Tensor>>& got,
                                     const std::vector<std::pair<std::string, Tensor>>& want) {
  if (got.size() != want.size())
    return ::testing::AssertionFailure() << got.size() << " tensors, want " << want.size();
  for (size_t i = 0; i < want.size(); ++i) {
    if (got[i].first != want[i].first)
      return ::testing::AssertionFailure()
             << "tensor " << i << ": " << got[i].first << ", want " << want[i].first;
    if (auto same = same_bits(got[i].second, want[i].second); !same)
      return ::testing::AssertionFailure() << want[i].first << ": " << same.message();
  }
  return ::testing::AssertionSuccess();
}

}  // namespace reprise::testing
