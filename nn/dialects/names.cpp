// Tables of names.
#include "reprise/nn/dialects/names.h"

#include <algorithm>
#include <array>

namespace reprise::nn {
namespace {

struct Rule {
  std::string_view ours;
  std::array<std::string_view, 3> theirs;  // several are stacked
};

constexpr Rule vit_rules[] = {
    {"cls_token", {"embeddings.cls_token"}},
    {"pos_embed", {"embeddings.position_embeddings"}},
    {"patch_embed.proj", {"embeddings.patch_embeddings.projection"}},
    {"blocks.*.norm1", {"encoder.layer.*.layernorm_before"}},
    {"blocks.*.attn.qkv",
     {"encoder.layer.*.attention.attention.query", "encoder.layer.*.attention.attention.key",
      "encoder.layer.*.attention.attention.value"}},
    {"blocks.*.attn.proj", {"encoder.layer.*.attention.output.dense"}},
    {"blocks.*.norm2", {"encoder.layer.*.layernorm_after"}},
    {"blocks.*.mlp.fc1", {"encoder.layer.*.intermediate.dense"}},
    {"blocks.*.mlp.fc2", {"encoder.layer.*.output.dense"}},
    {"norm", {"layernorm"}},
    {"head", {"classifier"}},
};

struct Alias {
  std::string_view spelling, canonical;
};

constexpr Alias aliases[] = {
    {"blocks.*.gamma_1", "blocks.*.ls1.gamma"},  // DeiT III's own files
    {"blocks.*.gamma_2", "blocks.*.ls2.gamma"},
    {"layers.*.attention.q_proj", "encoder.layer.*.attention.attention.query"},  // modules of transformers 5
    {"layers.*.attention.k_proj", "encoder.layer.*.attention.attention.key"},
    {"layers.*.attention.v_proj", "encoder.layer.*.attention.attention.value"},
    {"layers.*.attention.o_proj", "encoder.layer.*.attention.output.dense"},
    {"layers.*.layernorm_before", "encoder.layer.*.layernorm_before"},
    {"layers.*.layernorm_after", "encoder.layer.*.layernorm_after"},
    {"layers.*.mlp.fc1", "encoder.layer.*.intermediate.dense"},
    {"layers.*.mlp.fc2", "encoder.layer.*.output.dense"},
};

std::string filled(std::string_view pattern, const std::string& number, const std::string& rest) {
  std::string name(pattern);
  if (size_t star = name.find('*'); star != std::string::npos) name.replace(star, 1, number);
  return name + rest;
}

// Whether `pattern`, in which * is a number, is `name` or what stands before its last point: "blocks.*.norm1" is
// "blocks.3.norm1.weight". `rest` begins with that point.
bool matches(std::string_view pattern, std::string_view name, std::string& number, std::string& rest) {
  number.clear();
  if (size_t star = pattern.find('*'); star != std::string_view::npos) {
    if (!name.starts_with(pattern.substr(0, star))) return false;
    size_t end = std::min(name.find_first_not_of("0123456789", star), name.size());
    if (end == star) return false;
    number = name.substr(star, end - star);
    pattern.remove_prefix(star + 1);
    name.remove_prefix(end);
  }
  if (!name.starts_with(pattern)) return false;
  rest = name.substr(pattern.size());
  return rest.empty() || (rest[0] == '.' && rest.find('.', 1) == std::string::npos);
}

Shape turned(const Shape& shape) { return shape.size() == 2 ? Shape{shape[1], shape[0]} : shape; }

}  // namespace

Shape Place::shape_there(const Shape& shape) const {
  Shape there = transposed ? turned(shape) : shape;
  if (names.size() > 1) there[0] /= int64_t(names.size());
  return there;
}

Shape Place::shape_here(const Shape& first) const {
  Shape here = transposed ? turned(first) : first;
  if (names.size() > 1 && !here.empty()) here[0] *= int64_t(names.size());
  return here;
}

Place place_of(ModelKind kind, const std::string& name) {
  if (kind.naming == Naming::reprise || kind.architecture == Architecture::llama) return {{name}};
  if (kind.architecture == Architecture::gpt) {
    const bool is_norm = name.find(".ln_") != std::string::npos;
    return {{name}, name.starts_with("h.") && name.ends_with(".weight") && !is_norm};
  }
  std::string number, rest;
  if (kind.architecture == Architecture::vit)
    for (const Rule& rule : vit_rules) {
      if (!matches(rule.ours, name, number, rest)) continue;
      Place place;
      for (std::string_view theirs : rule.theirs)
        if (!theirs.empty()) place.names.push_back(filled(theirs, number, rest));
      return place;
    }
  return {};
}

std::string_view block_prefix(ModelKind kind) {
  if (kind.architecture == Architecture::gpt) return "h.";
  if (kind.architecture == Architecture::llama) return "model.layers.";
  return kind.naming == Naming::reprise ? "blocks." : "encoder.layer.";
}

std::string canonical_name(const std::string& name) {
  std::string_view inner = name;
  for (std::string_view prefix : {"vit.", "transformer."})
    if (inner.starts_with(prefix)) inner.remove_prefix(prefix.size());
  std::string number, rest;
  for (const Alias& alias : aliases)
    if (matches(alias.spelling, inner, number, rest)) return filled(alias.canonical, number, rest);
  return std::string(inner);
}

std::string written_prefix(ModelKind kind, const std::string& name, bool has_head) {
  if (kind.naming == Naming::reprise || kind.architecture == Architecture::llama) return "";
  if (kind.architecture == Architecture::gpt) return "transformer.";
  return has_head && !name.starts_with("classifier.") ? "vit." : "";
}

}  // namespace reprise::nn
