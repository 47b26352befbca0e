// Forward and backward in each mode.
#include "reprise/tests/support/run_modes.h"

#include <cstring>
#include <map>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/autograd/saved_tensor.h"
#include "reprise/core/parallel.h"

namespace reprise::testing {
namespace {

TensorList fresh_leaves(const TensorList& inputs) {
  TensorList leaves;
  for (const Tensor& x : inputs) {
    leaves.push_back(x.detach());
    if (x.requires_grad()) leaves.back().set_requires_grad();
  }
  return leaves;
}

TensorList grads_of(const TensorList& leaves) {
  TensorList grads;
  for (const Tensor& x : leaves) grads.push_back(x.grad());
  return grads;
}

RunResult run_plainly(const OpFunction& fn, const TensorList& inputs, const Tensor& dy) {
  TensorList leaves = fresh_leaves(inputs);
  Tensor y = fn(leaves);
  y.backward(dy);
  return {y.detach(), grads_of(leaves)};
}

// A saved tensor away from its device, as offloading would hold it.
struct HostCopy {
  int id;
  std::vector<unsigned char> bytes;
  Shape shape;
  DType dtype;
  Device device;
};

Tensor restored(const HostCopy& copy) {
  Tensor x = Tensor::empty(copy.shape, copy.dtype);
  if (!copy.bytes.empty()) std::memcpy(x.view().data, copy.bytes.data(), copy.bytes.size());
  return x.to(copy.device);
}

RunResult run_packed(const OpFunction& fn, const TensorList& inputs, const Tensor& dy) {
  TensorList leaves = fresh_leaves(inputs);
  std::map<int, int> unpacked;  // by id, how often
  int packs = 0;
  RunResult result;
  {
    autograd::SavedTensorHooks hooks(
        [&](const Tensor& x) {
          return std::any(HostCopy{packs++, bytes_of(x), x.shape(), x.dtype(), x.device()});
        },
        [&](const std::any& packed) {
          const auto& copy = std::any_cast<const HostCopy&>(packed);
          ++unpacked[copy.id];
          return restored(copy);
        });
    result.output = fn(leaves);
  }
  result.output.backward(dy);
  result.output = result.output.detach();
  result.grads = grads_of(leaves);
  EXPECT_LE(int(unpacked.size()), packs);
  for (auto [id, times] : unpacked) EXPECT_EQ(times, 1) << "saved tensor " << id << " was unpacked again";
  return result;
}

RunResult run_retained(const OpFunction& fn, const TensorList& inputs, const Tensor& dy) {
  TensorList leaves = fresh_leaves(inputs);
  Tensor y = fn(leaves);
  y.backward(dy, /*retain_graph=*/true);
  for (const Tensor& x : leaves) x.set_grad({});
  y.backward(dy);
  return {y.detach(), grads_of(leaves)};
}

RunMode in_checkpoint(std::string name, const CheckpointOptions& options) {
  return {std::move(name), [options](const OpFunction& fn, const TensorList& x, const Tensor& dy) {
            return run_plainly([&](const TensorList& leaves) { return checkpoint(fn, leaves, options); }, x,
                               dy);
          }};
}

// Saves every other result and recomputes the rest.
RunMode in_selective_checkpoint(std::string name, size_t first) {
  return {
      std::move(name), [first](const OpFunction& fn, const TensorList& x, const Tensor& dy) {
        auto asked = std::make_shared<size_t>(first);
        Policy alternate(
            [asked](const PolicyOp&) { return (*asked)++ % 2 == 0 ? Decision::save : Decision::recompute; });
        return run_plainly(
            [&](const TensorList& leaves) { return checkpoint(fn, leaves, {.policy = alternate}); }, x, dy);
      }};
}

RunMode with_threads(int count) {
  return {detail::join(count, " threads"),
          [count](const OpFunction& fn, const TensorList& x, const Tensor& dy) {
            int before = num_threads();
            set_num_threads(count);
            RunResult result = run_plainly(fn, x, dy);
            set_num_threads(before);
            return result;
          }};
}

}  // namespace

const std::vector<RunMode>& run_modes() {
  static const std::vector<RunMode> modes = {
      {"one pass", run_plainly},
      {"saved tensors packed in host memory", run_packed},
      {"the graph kept and run again", run_retained},
      in_checkpoint("a checkpoint", {.determinism = Determinism::values}),
      in_checkpoint("a checkpoint that compares metadata", {}),
      in_checkpoint("a checkpoint that saves all",
                    {.policy = Policy([](const PolicyOp&) { return Decision::save; })}),
      in_selective_checkpoint("a selective checkpoint", 0),
      in_selective_checkpoint("a selective checkpoint, the other way round", 1),
      in_checkpoint("a reentrant checkpoint", {.mode = CheckpointMode::reentrant}),
      with_threads(1),
      with_threads(2),
      with_threads(4),
  };
  return modes;
}

}  // namespace reprise::testing
