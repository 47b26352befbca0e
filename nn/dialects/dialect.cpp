// From names and layouts to others.
#include "reprise/nn/dialects/dialect.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/listing.h"
#include "reprise/core/number_in.h"
#include "reprise/core/quote.h"
#include "reprise/nn/dialects/inferred.h"

namespace reprise::nn {
namespace {

struct Given {
  std::string name;  // in the file
  Tensor tensor;
};
using GivenTensors = std::map<std::string, Given>;  // by canonical name

// Without "module." and "encoder.", where all names begin so.
NamedTensors without_prefixes(NamedTensors tensors) {
  for (std::string_view prefix : {"module.", "encoder."}) {
    auto begins = [&](const auto& entry) { return entry.first.starts_with(prefix); };
    if (!std::all_of(tensors.begin(), tensors.end(), begins)) continue;
    for (auto& [name, tensor] : tensors) name.erase(0, prefix.size());
  }
  return tensors;
}

GivenTensors by_canonical_name(NamedTensors tensors) {
  GivenTensors given;
  for (const auto& [name, tensor] : without_prefixes(std::move(tensors))) {
    auto [entry, is_new] = given.try_emplace(canonical_name(name), Given{name, tensor});
    check(is_new, "read_dialect: ", quote(entry->second.name), " and ", quote(name), " are one tensor");
  }
  return given;
}

ModelKind recognise(const GivenTensors& given) {
  auto has = [&](const char* name) { return given.contains(name); };
  if (has("blocks.0.attn.qkv.weight")) return {Architecture::vit, Naming::reprise};
  if (has("encoder.layer.0.attention.attention.query.weight"))
    return {Architecture::vit, Naming::hugging_face};
  if (auto found = given.find("h.0.attn.c_attn.weight"); found != given.end()) {
    const Tensor& weight = found->second.tensor;
    const bool is_in_out = weight.rank() == 2 && weight.size(1) == 3 * weight.size(0);
    return {Architecture::gpt, is_in_out ? Naming::hugging_face : Naming::reprise};
  }
  if (has("layer1.0.conv1.weight") && has("fc.weight")) return {Architecture::resnet, Naming::reprise};
  if (has("inc.double_conv.0.weight")) return {Architecture::unet, Naming::reprise};
  if (has("model.layers.0.self_attn.q_proj.weight")) return {Architecture::llama, Naming::reprise};
  fail(
      "read_dialect: the names are of no model that is known here (timm's ViT, Hugging Face's ViT, GPT-2 and "
      "Llama, torchvision's ResNet, Pytorch-UNet); the first is ",
      given.empty() ? "missing" : quote(given.begin()->second.name));
}

// What a model does not need: GPT-2's buffers of masks and its head, which is the token table, tables of turns, and the pooler
// that transformers add to a ViT without a head.
bool is_needless(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name == "lm_head.weight" ||
         name.ends_with(".rotary_emb.inv_freq") || name == "pooler.dense.weight" ||
         name == "pooler.dense.bias";
}

ShapeOf shapes_of(const GivenTensors& given, ModelKind kind) {
  return [&given, kind](const std::string& name) -> std::optional<Shape> {
    const Place place = place_of(kind, name);
    auto found = place.names.empty() ? given.end() : given.find(place.names.front());
    if (found == given.end()) return {};
    return place.shape_here(found->second.tensor.shape());
  };
}

int64_t layers_in(const GivenTensors& given, ModelKind kind) {
  int64_t layers = 0;
  const std::string_view prefix = block_prefix(kind);
  for (const auto& [name, entry] : given) {
    if (!name.starts_with(prefix)) continue;
    std::string_view number = std::string_view(name).substr(prefix.size());
    number = number.substr(0, number.find('.'));
    layers = std::max(layers, number_in<int64_t>(number).value_or(-1) + 1);
  }
  check(layers <= int64_t(given.size()), "block ", layers - 1, " in a file of ", given.size(), " tensors");
  return layers;
}

ModelOptions options_of(const GivenTensors& given, ModelKind kind) {
  const ShapeOf shape_of = shapes_of(given, kind);
  if (kind.architecture == Architecture::resnet) return resnet_options_of(shape_of);
  if (kind.architecture == Architecture::unet) return unet_options_of(shape_of);
  const int64_t layers = layers_in(given, kind);
  if (kind.architecture == Architecture::gpt) return gpt_options_of(shape_of, layers);
  if (kind.architecture == Architecture::llama) return llama_options_of(shape_of, layers);
  return vit_options_of(shape_of, layers);
}

void check_complete(const GivenTensors& given, const NamedShapes& wanted, ModelKind kind) {
  Listing wrong;
  std::set<std::string> used;
  for (const auto& [name, shape] : wanted) {
    const Place place = place_of(kind, name);
    const Shape there = place.shape_there(shape);
    const Tensor* first = nullptr;  // of those that are stacked
    for (const std::string& piece : place.names) {
      auto found = given.find(piece);
      used.insert(piece);
      if (found == given.end()) {
        wrong.add("missing: ", piece, ' ', there);
        continue;
      }
      const auto& [file_name, tensor] = found->second;
      if (!first) first = &tensor;
      if (tensor.shape() != there)
        wrong.add("shape of ", printable(file_name), ": ", tensor.shape(), ", wanted ", there);
      else if (tensor.dtype() != first->dtype())
        wrong.add("dtype of ", printable(file_name), ": ", tensor.dtype(), ", wanted ", first->dtype(),
                  " as of ", place.names.front());
    }
  }
  for (const auto& [name, entry] : given)
    if (!used.contains(name) && !is_needless(name))
      wrong.add("unknown: ", printable(entry.name), ' ', entry.tensor.shape());
  check(wrong.empty(), "read_dialect: the tensors are not those of such a model:", wrong.str());
}

// transformers' GPT-2 may have a head of its own; the published ones, and those that are read here, have the token table.
void check_tied(const GivenTensors& given) {
  auto head = given.find("lm_head.weight");
  if (head == given.end()) return;
  const Tensor &a = head->second.tensor, &b = given.at("wte.weight").tensor;
  const bool same = a.shape() == b.shape() && a.dtype() == b.dtype() &&
                    std::memcmp(a.view().data, b.view().data, size_t(a.numel()) * size_of(a.dtype())) == 0;
  check(same, "read_dialect: ", quote(head->second.name),
        " is not wte.weight: a head of its own is not read");
}

// Takes the tensor out of `given`, so that no more is held than has to be.
Tensor take(GivenTensors& given, const Place& place) {
  TensorList parts;
  for (const std::string& piece : place.names) {
    Tensor tensor = given.extract(piece).mapped().tensor;
    parts.push_back(place.transposed ? tensor.transpose(0, 1).contiguous() : tensor);
  }
  return parts.size() == 1 ? parts[0] : concat(parts, 0);
}

}  // namespace

ModelWeights read_dialect(NamedTensors tensors) {
  NoGrad guard;
  GivenTensors given = by_canonical_name(std::move(tensors));
  ModelWeights weights{.kind = recognise(given)};
  weights.options = options_of(given, weights.kind);
  const NamedShapes wanted = state_of(weights.options);
  check_complete(given, wanted, weights.kind);
  if (weights.kind.architecture == Architecture::gpt) check_tied(given);
  for (const auto& [name, shape] : wanted)
    weights.tensors.emplace_back(name, take(given, place_of(weights.kind, name)));
  for (const auto& [name, entry] : given) weights.left_out.push_back(entry.name);
  return weights;
}

NamedTensors part_of(const NamedTensors& tensors, std::string_view part) {
  const std::string prefix = std::string(part) + '.';
  NamedTensors found;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with(prefix)) found.emplace_back(name.substr(prefix.size()), tensor);
  return found;
}

NamedTensors write_dialect(const NamedTensors& tensors, ModelKind kind) {
  NoGrad guard;
  Listing wrong;
  NamedTensors written;
  auto is_head = [](const auto& entry) { return entry.first.starts_with("head."); };
  const bool has_head = std::any_of(tensors.begin(), tensors.end(), is_head);
  for (const auto& [name, tensor] : tensors) {
    const Place place = place_of(kind, name);
    if (place.names.empty()) {
      wrong.add("no place for ", name, ' ', tensor.shape());
      continue;
    }
    const Tensor whole = place.transposed ? tensor.transpose(0, 1) : tensor;
    const int64_t rows = place.names.size() > 1 ? tensor.size(0) / int64_t(place.names.size()) : 0;
    for (size_t i = 0; i < place.names.size(); ++i)
      written.emplace_back(written_prefix(kind, place.names[i], has_head) + place.names[i],
                           rows == 0 ? whole : whole.slice(0, int64_t(i) * rows, int64_t(i + 1) * rows));
  }
  check(wrong.empty(), "write_dialect: such a file cannot hold this model:", wrong.str());
  return written;
}

}  // namespace reprise::nn
