#include "reprise/train/precision/moments.h"

#include <algorithm>

#include "reprise/core/error.h"
#include "reprise/kernels/optimizer/quantized.h"

namespace reprise::train {
namespace {

using kernels::DynamicMap;
using kernels::kQuantizedBlock;

DynamicMap map_of(bool positive) { return positive ? DynamicMap::positive : DynamicMap::with_sign; }

}  // namespace

Tensor dequantized(const Tensor& codes, const Tensor& largest, bool positive) {
  check(codes.dtype() == DType::u8 && largest.dtype() == DType::f32 &&
            largest.numel() == kernels::quantized_blocks(codes.numel()),
        "resume: moments of ", codes.dtype(), codes.shape(), " have ", largest.dtype(), largest.shape(),
        " beside them, need f32 of one number for each block of ", kQuantizedBlock);
  const kernels::DynamicValues values = kernels::dynamic_values(map_of(positive));
  const std::vector<double> numbers = codes.to_vector<double>();
  const std::vector<float> scales = largest.to_vector<float>();
  std::vector<float> all(numbers.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = values[size_t(numbers[i])] * scales[i / kQuantizedBlock];
  return Tensor::from(all, codes.shape());
}

std::pair<Tensor, Tensor> quantized(const Tensor& numbers, bool positive) {
  const DynamicMap map = map_of(positive);
  const kernels::DynamicValues values = kernels::dynamic_values(map);
  const std::vector<float> all = numbers.to_vector<float>();
  std::vector<uint8_t> codes(all.size());
  std::vector<float> largest;
  for (size_t begin = 0; begin < all.size(); begin += kQuantizedBlock) {
    const size_t end = std::min(all.size(), begin + kQuantizedBlock);
    float most = 0;
    for (size_t i = begin; i < end; ++i) most = kernels::larger(most, all[i]);
    for (size_t i = begin; i < end; ++i)
      codes[i] = kernels::nearest_code(map, values.data(), kernels::share_of(all[i], most));
    largest.push_back(most);
  }
  return {Tensor::from(codes, numbers.shape()), Tensor::from(largest, {int64_t(largest.size())})};
}

}  // namespace reprise::train
