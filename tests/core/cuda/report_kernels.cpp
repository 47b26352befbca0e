// The table of the lookup, which the device `cuda` fills where there is one.
#include "reprise/tests/core/cuda/report_kernels.h"

namespace reprise {

kernels::Kernel<void(const TensorView& table, const TensorView& index, const TensorView& y)> look_up{
    "look_up", nullptr};

}  // namespace reprise
