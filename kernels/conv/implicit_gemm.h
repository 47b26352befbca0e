// Convolution on the CPU as a matrix multiply whose operands are never written out (Chetlur et al. 2014,
// arXiv 1410.0759): packing reads the windows from the images. Arguments as in conv2d.h, checked.
#pragma once

#include "reprise/kernels/conv/conv2d_by_gemm.h"

namespace reprise::kernels::conv2d_detail {

/// Whether the bordered copy of the images is not much larger than the windows written out would be: strides and
/// dilations far beyond the kernel's size spread a few windows over pixels that none of them reads.
bool suits_implicit(const Shape& x, const Shape& weight, const Conv2dOptions& options);

void conv2d_implicit(const Stream& stream, const Conv2dArguments& arguments);
void conv2d_dx_implicit(const Stream& stream, const Conv2dDxArguments& arguments);
void conv2d_dweight_implicit(const Stream& stream, const Conv2dDweightArguments& arguments,
                             Before before = Before::overwritten);

}  // namespace reprise::kernels::conv2d_detail
