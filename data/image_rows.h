// From rows of bytes on the host to the tensor that a model takes, on its device.
#pragma once

#include "reprise/core/tensor.h"
#include "reprise/data/pipeline.h"

namespace reprise::data {

/// What a pipeline makes of each byte, f32 (C, 256) on `device`.
Tensor table_on(const Pipeline& pipeline, Device device);

/// What is erased and mixed, by row; empty lists: nothing.
struct RowEffects {
  std::vector<Erasure> erasures{};  ///< a row each
  uint64_t noise_seed = 0;
  bool noise = false;        ///< boxes are filled with normal numbers, else with 0
  std::vector<Mix> mixes{};  ///< a pair of rows each
};

/// Rows u8 (B, H, W, C), in host memory or where `table` is -> f32 (B, C, H, W) there: normalised, erased, mixed.
Tensor image_tensor(const Tensor& rows, const Tensor& table, const RowEffects& effects = {});

}  // namespace reprise::data
