#include "reprise/distributed/data_parallel/blocks.h"

#include <algorithm>

namespace reprise::distributed {
namespace {

bool is_number(const std::string& name) {
  const std::string last = name.substr(name.rfind('.') + 1);
  return !last.empty() && std::ranges::all_of(last, [](char c) { return c >= '0' && c <= '9'; });
}

bool is_below(const std::string& name, const std::string& other) { return name.starts_with(other + '.'); }

bool has(const TensorList& parameters, const Tensor& leaf) {
  return std::ranges::any_of(parameters, [&](const Tensor& x) { return x.is_same(leaf); });
}

// What modules beside all blocks have.
TensorList beside(nn::Module& model, const std::vector<Block>& blocks) {
  TensorList all;
  for (const auto& [name, module] : model.named_modules()) {
    const bool is_around =
        name.empty() || std::ranges::any_of(blocks, [&](const Block& b) { return is_below(b.name, name); });
    const bool is_within =
        std::ranges::any_of(blocks, [&](const Block& b) { return b.name == name || is_below(name, b.name); });
    if (is_around || is_within) continue;
    const TensorList own = module->parameters();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

}  // namespace

std::vector<Block> numbered_blocks(nn::Module& model, const TensorList& leaves, int64_t least) {
  std::vector<nn::Layer*> layers;
  std::string last;  // the name of the last one
  for (const auto& [name, module] : model.named_modules()) {
    auto* layer = dynamic_cast<nn::Layer*>(module);
    if (!layer || !is_number(name) || (!layers.empty() && is_below(name, last))) continue;
    layers.push_back(layer);
    last = name;
  }
  std::vector<Block> blocks = blocks_of(model, leaves, layers);
  std::erase_if(blocks, [&](const Block& block) {
    int64_t numel = 0;
    for (size_t i : block.parameters) numel += leaves[i].numel();
    return numel < least;
  });
  return blocks;
}

std::vector<Block> blocks_of(nn::Module& model, const TensorList& leaves,
                             const std::vector<nn::Layer*>& layers) {
  std::vector<Block> blocks;
  for (const auto& [name, module] : model.named_modules())
    if (std::ranges::find(layers, module) != layers.end())
      blocks.push_back({name, dynamic_cast<nn::Layer*>(module), {}});
  check(blocks.size() == layers.size(), "blocks: of ", layers.size(), " layers ", blocks.size(),
        " are different ones of the model");
  for (const Block& one : blocks)
    for (const Block& other : blocks)
      check(!is_below(one.name, other.name), "blocks: ", one.name, " is within ", other.name);
  const TensorList others = beside(model, blocks);
  const nn::NamedTensors named = model.named_parameters();  // what is around a block comes before it
  for (size_t i = 0; i < leaves.size(); ++i) {
    Block* owner = nullptr;
    int owners = has(others, leaves[i]);
    for (Block& block : blocks)
      if (has(block.layer->parameters(), leaves[i])) owner = &block, ++owners;
    const auto first =
        std::ranges::find_if(named, [&](const auto& n) { return n.second.is_same(leaves[i]); });
    if (owners == 1 && owner && is_below(first->first, owner->name)) owner->parameters.push_back(i);
  }
  std::erase_if(blocks, [](const Block& block) { return block.parameters.empty(); });
  return blocks;
}

std::pair<std::string, nn::Layer*> layer_with(nn::Module& model, const TensorList& tensors) {
  std::pair<std::string, nn::Layer*> found{};
  size_t fewest = 0;
  for (const auto& [name, module] : model.named_modules()) {
    auto* layer = dynamic_cast<nn::Layer*>(module);
    if (!layer) continue;
    const TensorList own = layer->parameters();
    if (!std::ranges::all_of(tensors, [&](const Tensor& x) { return has(own, x); })) continue;
    if (found.second && own.size() >= fewest) continue;
    found = {name, layer};
    fewest = own.size();
  }
  check(found.second, "blocks: no layer of the model has all of ", tensors.size(),
        " tensors that follow the weights of a block");
  return found;
}

}  // namespace reprise::distributed
