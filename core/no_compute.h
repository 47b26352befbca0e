// NoCompute: code that trains a model runs without computing anything, to learn what memory it takes.
//
//   rp::NoCompute no_compute;
//   rp::nn::Gpt model({.layers = 48, .heads = 25, .width = 1600});  // 1.6 billion parameters, on any machine
//   cross_entropy(model(tokens), targets).backward();
//   rp::allocator(rp::Device::cpu()).stats().peak_held;              // what a machine that computes them would hold
//
// (PyTorch has FakeTensorMode and tensors on the meta device.)
#pragma once

#include <cstddef>
#include <utility>

namespace reprise {

/// While it lives, on this thread, a `parallel_for` of more than one piece does nothing, and with it the kernels of the CPU; and
/// memory that tensors ask for is counted as ever and not there: addresses without pages behind them. Shapes, dtypes, graphs, regions
/// that recompute, the allocator's statistics and its limit are as they would be. Values are not: what is of one piece, such as
/// a loss, a flag or a count that code decides by, is computed; of the rest most is 0.
///
/// Tensors from before keep their values; those from within have none after it, either. On GPUs it changes nothing. Calls of an
/// imagined group return at once (distributed/imagined/imagined_group.h). Those of a group with real ranks are Errors, and so is
/// writing tensors to a file; what is offloaded goes nowhere, and is counted as ever.
class NoCompute {
 public:
  NoCompute() : before_(std::exchange(on_, true)) {}
  ~NoCompute() { on_ = before_; }
  NoCompute(const NoCompute&) = delete;

  static bool is_on() { return on_; }    ///< whether one lives on this thread
  static constexpr size_t small = 4096;  ///< bytes: memory that is there, and 0 at first

 private:
  inline static thread_local bool on_ = false;
  bool before_;
};

}  // namespace reprise
