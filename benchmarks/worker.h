// What the programs share that a comparison drives: they wait for lines "run" and answer with JSON.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

namespace reprise::bench {

/// The peak of the process, as the kernel counts it: what PyTorch's worker reports too.
inline size_t peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return size_t(std::atoll(line.c_str() + 6)) * 1024;
  return 0;
}

}  // namespace reprise::bench
