// A graph of operations that cuDNN fuses into one kernel: built once, run often. Only files that call cuDNN
// use it.
//
//   CudnnGraph graph;
//   auto x = graph.memory(x_view), y = graph.memory(y_view);
//   graph.pointwise(CudnnGraph::Mode::mul, {x, graph.number(0.5f)}, y);
//   if (graph.build(scope)) graph.run(scope, {{x, x_view.data}, {y, y_view.data}}, workspace);
#pragma once

#include <memory>
#include <vector>

#include "reprise/core/view.h"
#include "reprise/kernels/cuda/cudnn_handle.h"

namespace reprise::kernels::vendor {

class CudnnGraph {
 public:
  using Id = int64_t;  ///< of a tensor
  enum class Mode : uint8_t { add, sub, mul, div, exp, log, index, greater_equal, select };
  enum class Sum : uint8_t { add, max };
  /// What a tensor between operations holds.
  enum class Kind : uint8_t { f32, i32, boolean, bf16, f16 };
  struct Pointer {
    Id id;
    void* data;
  };

  CudnnGraph();
  ~CudnnGraph();

  /// A tensor in memory of this shape, strides and dtype, 16-byte aligned. The data is given at `run`.
  Id memory(const TensorView& view);
  /// A number the same in every run.
  Id number(float value);
  /// A tensor between two operations. Without strides: contiguous.
  Id temporary(const Shape& shape, Kind kind = Kind::f32, const Strides& strides = {});

  /// y = mode(x...). `select` takes (a, b, condition); `index` gives the index along `axis`.
  void pointwise(Mode mode, const std::vector<Id>& x, Id y, int64_t axis = 0);
  void matmul(Id a, Id b, Id c);           ///< sums in f32
  void reduce(Sum operation, Id x, Id y);  ///< over the dimensions in which y has size 1; in f32
  void reshape(Id x, Id y);                ///< y is x seen with y's shape and strides

  /// Chooses a kernel. False if cuDNN has no deterministic one for this graph on this device.
  bool build(const CudnnScope& scope);
  size_t workspace_bytes() const;
  void run(const CudnnScope& scope, const std::vector<Pointer>& pointers, void* workspace) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise::kernels::vendor
