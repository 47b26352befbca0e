// A build without cuDNN.
#include "reprise/kernels/conv/cudnn.h"

namespace reprise::kernels::vendor {

bool cudnn_conv2d(const Stream&, const TensorView&, const TensorView&, const TensorView&,
                  const Conv2dOptions&, const TensorView&) {
  return false;
}
bool cudnn_conv2d_dx(const Stream&, const TensorView&, const TensorView&, const Conv2dOptions&,
                     const TensorView&) {
  return false;
}
bool cudnn_conv2d_dweight(const Stream&, const TensorView&, const TensorView&, const Conv2dOptions&,
                          const TensorView&) {
  return false;
}

}  // namespace reprise::kernels::vendor
