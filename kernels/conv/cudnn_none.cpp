// A build without cuDNN.
#include "reprise/kernels/conv/cudnn.h"

namespace reprise::kernels::vendor {

bool cudnn_conv2d(const Stream&, const Conv2dArguments&) { return false; }
bool cudnn_conv2d_dx(const Stream&, const Conv2dDxArguments&) { return false; }
bool cudnn_conv2d_dweight(const Stream&, const Conv2dDweightArguments&) { return false; }

}  // namespace reprise::kernels::vendor
