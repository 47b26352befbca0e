// Saving and loading what has a state dict: a module, an optimizer, averages. One safetensors file each.
//
//   rp::save("model.safetensors", model);
//   rp::save("optimizer.safetensors", optimizer, {{"step", "1000"}});
//   rp::load("model.safetensors", model);
//   rp::load("optimizer.safetensors", optimizer);
//
// (PyTorch: torch.save and torch.load of state dicts.)
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "reprise/core/error.h"
#include "reprise/core/tensor.h"

namespace reprise {

/// Writes the tensors, on any device, and `metadata` atomically and durably: at `path` is the old file or the new one. Error
/// with the path if that fails, if a tensor is undefined, or if a name is there twice or is not UTF-8.
void save(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
          const std::map<std::string, std::string>& metadata = {});
/// The same of tensors in a map. (A template, so that a list in braces means the function above.)
template <class Less>
void save(const std::string& path, const std::map<std::string, Tensor, Less>& tensors,
          const std::map<std::string, std::string>& metadata = {}) {
  save(path, std::vector<std::pair<std::string, Tensor>>(tensors.begin(), tensors.end()), metadata);
}

/// All tensors of a file, on the CPU: what `save` wrote, or whatever io::read_weights reads. Error as said there.
std::vector<std::pair<std::string, Tensor>> load(const std::string& path);

/// Something whose tensors have names and can be given back: nn::Module, optim::Optimizer, optim::Ema, optim::GradScaler.
template <class T>
concept HasStateDict = requires(T& x, const T& same, std::vector<std::pair<std::string, Tensor>> state) {
  state = same.state_dict();
  x.load_state_dict(state);
};

/// Writes `x.state_dict()`.
template <HasStateDict T>
void save(const std::string& path, const T& x, const std::map<std::string, std::string>& metadata = {}) {
  save(path, std::vector<std::pair<std::string, Tensor>>(x.state_dict()), metadata);
}

/// Gives `x` its state, on the device where it is. Error with the path and what does not fit; `x` is then unchanged.
template <HasStateDict T>
void load(const std::string& path, T& x) {
  const auto tensors = load(path);
  try {
    x.load_state_dict(tensors);
  } catch (const Error& error) { fail("load: ", path, ": ", error.what()); }
}

}  // namespace reprise
