// Tensors and modules as text, for looking at them.
//
//   std::cout << x;        // [[1.5, -2, 3],
//                          //  [4, 5, 6]] f32(2, 3) on cpu
//   std::cout << model;    // Gpt: 3344 parameters
//                          //   wte.weight f32(11, 16) ...
#pragma once

#include <iosfwd>
#include <string>

#include "reprise/nn/module.h"

namespace reprise {

/// How much of a tensor is shown. Error unless edge and digits are positive.
struct PrintOptions {
  int64_t most = 1000;  ///< elements; of a tensor with more only the edges are shown
  int64_t edge = 3;     ///< elements at each end of a dimension, where it is cut
  int digits = 5;       ///< significant ones, of floating numbers
};

/// The elements, rows below each other, then dtype, shape and device. Waits for the device, and reads no more than is shown.
/// (PyTorch: torch.set_printoptions has the same threshold and edge items.)
std::string to_string(const Tensor& x, const PrintOptions& options = {});
/// to_string(x), with its defaults.
std::ostream& operator<<(std::ostream& out, const Tensor& x);

namespace nn {

/// The module's class and its number of parameters; then, module by module, each parameter and buffer with its name, dtype and
/// shape, and whether it is frozen. Of a layer that has none of its own, such as an activation, its name and class; and of one
/// whose shapes do not tell its options, class and options: "0 Conv2d(stride=(2, 2))" (nn/described.h).
std::string to_string(const Module& module);
/// to_string(module).
std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace nn
}  // namespace reprise
