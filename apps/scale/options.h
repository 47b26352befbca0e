// The options of `reprise-scale`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::apps::scale {

struct Command {
  std::string model = "gpt2_124m", device = "h100", layers_file, write_layers;
  std::vector<int> ranks = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
  int64_t batch = 0, length = 0, accumulate = 0;  ///< 0: the default
  std::string precision = "bf16", recompute = "none", reduce = "tree", wire = "f32", bucket_size = "25MiB";
  int zero = 0;
  std::string links;  ///< empty: those of the device
  int per_node = 8;
  double network = 0, node_bandwidth = 0;  ///< Gb/s, GB/s; 0: the links' own
  double tflops = 0;                       ///< 0: the device's
  double spread = 1;                       ///< percent
  int64_t seed = 1337;
  bool json = false;
};

/// Parses the command line. Prints help and exits the process with 0 where asked; throws Error on bad options.
Command parse_command_line(int argc, char** argv);

/// Returns the exit code.
int run_scale(const Command& command);

}  // namespace reprise::apps::scale
