#include "reprise/apps/scale/model_shape.h"

#include <charconv>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"

namespace reprise::apps::scale {
namespace {

ModelShape gpt(const char* name, int64_t layers, int64_t width, int64_t heads) {
  return {.name = name,
          .layers = layers,
          .width = width,
          .heads = heads,
          .key_width = width,
          .hidden = 4 * width};
}

std::vector<ModelShape> presets() {
  return {gpt("gpt2_124m", 12, 768, 12),
          gpt("gpt2_355m", 24, 1024, 16),
          gpt("gpt2_774m", 36, 1280, 20),
          gpt("gpt2_1558m", 48, 1600, 25),
          {.name = "llama3_8b",
           .family = ModelFamily::llama,
           .layers = 32,
           .width = 4096,
           .heads = 32,
           .vocab_size = 128256,
           .context = 8192,
           .key_width = 1024,
           .hidden = 14336,
           .is_tied = false,
           .has_qkv_bias = false},
          {.name = "qwen2.5_0.5b",
           .family = ModelFamily::llama,
           .layers = 24,
           .width = 896,
           .heads = 14,
           .vocab_size = 151936,
           .context = 1024,
           .key_width = 128,
           .hidden = 4864}};
}

// "4x128" of gpt_4x128; false where it is something else.
bool parse_sizes(const std::string& text, int64_t& layers, int64_t& width) {
  const char* end = text.data() + text.size();
  auto [x, wrong] = std::from_chars(text.data(), end, layers);
  if (wrong != std::errc() || x == end || *x != 'x') return false;
  auto [rest, wrong_too] = std::from_chars(x + 1, end, width);
  return wrong_too == std::errc() && rest == end && layers >= 1 && layers <= 1000 && width >= 32 &&
         width <= 65536 && width % (width < 256 ? 32 : 64) == 0;
}

}  // namespace

ModelShape model_shape(const std::string& name) {
  std::string names;
  for (const ModelShape& shape : presets()) {
    if (shape.name == name) return shape;
    names += shape.name + ", ";
  }
  int64_t layers = 0, width = 0;
  check(name.starts_with("gpt_") && parse_sizes(name.substr(4), layers, width), "--model ", quote(name),
        " is not one of ", names,
        "nor gpt_LxW, such as gpt_4x128 (a width below 256 is a multiple of 32, another one of 64)");
  ModelShape shape = gpt(name.c_str(), layers, width, width / (width < 256 ? 32 : 64));
  shape.vocab_size = 65;
  shape.context = 256;
  return shape;
}

std::vector<int64_t> embedding_parameters(const ModelShape& s) {
  std::vector<int64_t> all = {s.vocab_size * s.width};
  if (s.family == ModelFamily::gpt) all.push_back(s.context * s.width);
  return all;
}

std::vector<int64_t> block_parameters(const ModelShape& s) {
  const int64_t w = s.width, k = s.key_width, f = s.hidden;
  if (s.family == ModelFamily::gpt)  // norm1, attn.qkv, attn.proj, norm2, mlp.fc1, mlp.fc2
    return {w, w, 3 * w * w, 3 * w, w * w, w, w, w, f * w, f, w * f, w};
  std::vector<int64_t> all = {w * w, k * w, k * w, w * w, f * w, w * f, f * w, w, w};
  if (s.has_qkv_bias) all.insert(all.begin() + 3, {w, k, k});
  return all;
}

std::vector<int64_t> head_parameters(const ModelShape& s) {
  std::vector<int64_t> all = {s.width};
  if (s.family == ModelFamily::gpt) all.push_back(s.width);
  if (!s.is_tied) all.push_back(s.vocab_size * s.width);
  return all;
}

double block_flops(const ModelShape& s, int64_t length) {
  const double w = double(s.width), k = double(s.key_width), f = double(s.hidden);
  const double mlp = s.family == ModelFamily::gpt ? 2 * w * f : 3 * w * f;
  return 2 * (2 * w * w + 2 * w * k + mlp) + 4 * double(length) * w;
}

double head_flops(const ModelShape& s) { return 2 * double(s.vocab_size) * double(s.width); }

}  // namespace reprise::apps::scale
