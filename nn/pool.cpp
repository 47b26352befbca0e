#include "reprise/nn/pool.h"

namespace reprise::nn {

std::string MaxPool2d::extra_repr() const {
  return OptionText()
      .add("kernel", kernel_)
      .add("stride", options_.stride.value_or(kernel_))
      .add_unless(0, "padding", options_.padding)
      .add_unless(1, "dilation", options_.dilation)
      .add_unless(false, "ceil_mode", options_.ceil_mode)
      .str();
}

std::string AvgPool2d::extra_repr() const {
  return OptionText()
      .add("kernel", kernel_)
      .add("stride", options_.stride.value_or(kernel_))
      .add_unless(0, "padding", options_.padding)
      .add_unless(false, "ceil_mode", options_.ceil_mode)
      .add_unless(true, "count_include_pad", options_.count_include_pad)
      .str();
}

}  // namespace reprise::nn
