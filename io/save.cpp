#include "reprise/io/save.h"

#include "reprise/io/safetensors.h"
#include "reprise/io/weights.h"

namespace reprise {

void save(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
          const std::map<std::string, std::string>& metadata) {
  for (const auto& [name, tensor] : tensors)
    check(tensor.defined(), "save: ", path, ": the tensor ", name, " is undefined");
  io::write_safetensors(path, {tensors.begin(), tensors.end()}, metadata);
}

std::vector<std::pair<std::string, Tensor>> load(const std::string& path) {
  return io::read_weights(path).tensors;
}

}  // namespace reprise
