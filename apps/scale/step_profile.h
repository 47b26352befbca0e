// StepProfile: what a rank's training step computes, layer by layer: parameters, seconds and bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reprise/apps/scale/model_shape.h"

namespace reprise::apps::scale {

/// One layer and one micro-batch of a rank.
struct Layer {
  std::string name;
  std::vector<int64_t>
      parameters{};  ///< elements of each, in the order of registration; a tied one with its first layer
  double forward_seconds = 0, backward_seconds = 0;
  double saved_bytes = 0;   ///< that the graph keeps, save the layer's output
  double output_bytes = 0;  ///< kept by the next layer
  bool is_block = false;    ///< may be recomputed

  int64_t numel() const;
};

struct StepProfile {
  std::string model;
  std::string origin;  ///< where the seconds are from: "measured on cpu (2 threads)", "assumed of h100: ..."
  bool is_measured = false;
  int64_t tokens = 0;           ///< of a micro-batch
  double update_seconds = 0;    ///< of the optimizer, all parameters
  std::vector<Layer> layers{};  ///< in the order of forward, which is that of registration

  int64_t numel() const;
};

/// Of a micro-batch.
struct BatchShape {
  int64_t rows = 1, length = 1;
};

/// What a device reaches: an assumption, not a measurement.
struct DeviceSpeed {
  std::string name;
  double flops_16 = 0, flops_32 = 0;  ///< of products, per second
  double memory_bandwidth = 0;        ///< bytes per second
  double memory_bytes = 0;
};
/// "h100" or "h200". Error on anything else.
DeviceSpeed device_speed(const std::string& name);

/// Floating-point operations over FLOP/s: backward is twice forward; the optimizer's bytes over the memory bandwidth. `is_16_bit`:
/// of the products; `is_pure`: of the weights too.
StepProfile assumed_profile(const ModelShape& shape, BatchShape batch, const DeviceSpeed& device,
                            bool is_16_bit, bool is_pure);

/// Runs the model on a device of this machine ("cpu", "cuda") and measures each block, what stands around them, and AdamW.
/// Error unless it is a GPT. To be called in the precision's scope.
StepProfile measured_profile(const ModelShape& shape, BatchShape batch, const std::string& device,
                             const std::string& precision);

/// JSON of a profile. Reading is an Error that names the file and what is wrong.
std::string profile_to_json(const StepProfile& profile);
StepProfile profile_from_json(const std::string& path);

}  // namespace reprise::apps::scale
