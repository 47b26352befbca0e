// Tensors of numbers that another library holds.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise {

/// A copy of the numbers that begin at `data` in host memory: an image of OpenCV, a matrix of Eigen, a vector's data. `strides`, in
/// elements, are from one place of a dimension to the next; none: row-major, without gaps. A bool is a byte of 0 or 1. Error on a
/// null pointer where there are elements, and on strides that are negative or not one for each dimension. (torch.from_blob, but
/// for the copy: the memory may go at once.)
///
///     cv::Mat image = ...;  // 8 bits, 3 channels; its rows may have gaps
///     rp::Tensor pixels = rp::from_memory(image.data, rp::DType::u8, {image.rows, image.cols, 3}, {int64_t(image.step1()), 3, 1});
Tensor from_memory(const void* data, DType dtype, const Shape& shape, const Strides& strides = {},
                   Device device = {});

}  // namespace reprise
