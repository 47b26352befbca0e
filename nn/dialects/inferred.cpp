// Options from shapes, and shapes from options.
#include "reprise/nn/dialects/inferred.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "reprise/core/random.h"

namespace reprise::nn {
namespace {

Shape known(const ShapeOf& shape_of, const std::string& name, int rank) {
  std::optional<Shape> shape = shape_of(name);
  check(shape.has_value(), "missing: ", name);
  check(shape->size() == rank, "shape of ", name, ": ", *shape, ", wanted ", rank, " dimensions");
  return *shape;
}

// Before a model is made: it is not much larger than the tensors that are there.
void check_block(const ShapeOf& shape_of, const std::string& name, const Shape& wanted) {
  Shape shape = known(shape_of, name, 2);
  check(shape == wanted, "shape of ", name, ": ", shape, ", wanted ", wanted);
}

int64_t root_of(int64_t square) {
  auto root = int64_t(std::llround(std::sqrt(double(square))));
  return square > 0 && root * root == square ? root : 0;
}

// The side of the grid of patches, and whether positions are the patches' alone.
void take_positions(const ShapeOf& shape_of, VitOptions& o) {
  const int64_t prefix = o.registers + (o.class_token ? 1 : 0);
  const Shape positions = known(shape_of, "pos_embed", 3);
  int64_t side = root_of(positions[1] - prefix);
  if (side == 0) {
    side = root_of(positions[1]);
    o.no_embed_class = true;
  }
  check(side > 0, "shape of pos_embed: ", positions, ", wanted a square of patches and ", prefix,
        " tokens before them");
  o.image = side * o.patch;
}

// A model that is made for its names draws nothing from the thread's generator.
class KeptGenerator {
 public:
  ~KeptGenerator() { default_generator().set_state(before_); }

 private:
  Generator::State before_ = default_generator().state();
};

// Names and shapes, those of block 0, which begin with `prefix`, for each layer.
NamedShapes with_layers(const NamedTensors& one, const std::string& prefix, int64_t layers) {
  NamedShapes all;
  for (const auto& [name, tensor] : one) {
    if (prefix.empty() || !name.starts_with(prefix)) {
      all.emplace_back(name, tensor.shape());
      continue;
    }
    const std::string part = name.substr(prefix.size() + 1);  // behind the 0
    for (int64_t i = 0; i < layers; ++i) all.emplace_back(prefix + std::to_string(i) + part, tensor.shape());
  }
  return all;
}

}  // namespace

VitOptions vit_options_of(const ShapeOf& shape_of, int64_t layers) {
  VitOptions o{.layers = layers, .heads = 1};
  Shape projection = known(shape_of, "patch_embed.proj.weight", 4);
  o.width = projection[0];
  o.channels = projection[1];
  o.patch = projection[2];
  check_block(shape_of, "blocks.0.attn.qkv.weight", {3 * o.width, o.width});
  const std::string stem = "patch_embed.stem.";
  const int layers_a_convolution = 3, most = 14 * layers_a_convolution;  // with its norm and ReLU
  if (shape_of(stem + "0.weight")) {
    o.stem = Stem::conv;
    o.channels = known(shape_of, stem + "0.weight", 4)[1];
    o.patch = 1;
    for (int i = 0; i < most && shape_of(stem + std::to_string(i) + ".weight"); i += layers_a_convolution)
      o.patch *= 2;
  }
  o.class_token = shape_of("cls_token").has_value();
  o.registers = shape_of("reg_token") ? known(shape_of, "reg_token", 3)[1] : 0;
  take_positions(shape_of, o);
  o.pool = shape_of("fc_norm.weight") ? Pool::avg : shape_of("head.weight") ? Pool::token : Pool::none;
  check(o.pool != Pool::token || o.class_token,
        "norm before the mean of the patches' tokens: no such model here; ours has fc_norm behind it");
  o.classes = o.pool == Pool::none ? 0 : known(shape_of, "head.weight", 2)[0];
  o.qkv_bias = shape_of("blocks.0.attn.qkv.bias").has_value();
  o.layer_scale = shape_of("blocks.0.ls1.gamma") ? 1 : 0;
  o.norm = shape_of("blocks.0.norm1.bias") ? NormKind::layer : NormKind::rms;
  const std::string q_norm = "blocks.0.attn.q_norm.weight";
  if (shape_of(q_norm)) {
    const int64_t head_dim = known(shape_of, q_norm, 1)[0];
    check(head_dim > 0 && o.width % head_dim == 0, "shape of ", q_norm, ": (", head_dim,
          ",), which does not divide the width ", o.width);
    o.qk_norm = true;
    o.heads = o.width / head_dim;
  }
  return o;
}

GptOptions gpt_options_of(const ShapeOf& shape_of, int64_t layers) {
  Shape tokens = known(shape_of, "wte.weight", 2), positions = known(shape_of, "wpe.weight", 2);
  check_block(shape_of, "h.0.attn.c_attn.weight", {3 * tokens[1], tokens[1]});
  return {.vocab_size = tokens[0],
          .context = positions[0],
          .layers = layers,
          .heads = 1,
          .width = tokens[1],
          .bias = shape_of("h.0.ln_1.bias").has_value()};
}

LlamaOptions llama_options_of(const ShapeOf& shape_of, int64_t layers) {
  const std::string block = "model.layers.0.", keys = block + "self_attn.k_proj.weight";
  const Shape tokens = known(shape_of, "model.embed_tokens.weight", 2), key = known(shape_of, keys, 2);
  const std::string gate = block + "mlp.gate_proj.weight";
  const std::string queries = block + "self_attn.q_proj.weight", norm = block + "self_attn.q_norm.weight";
  const int64_t width = tokens[1], hidden = known(shape_of, gate, 2)[0],
                query = known(shape_of, queries, 2)[0];
  const bool qk_norm = shape_of(norm).has_value();
  const int64_t head_dim = qk_norm ? known(shape_of, norm, 1)[0] : std::gcd(query, key[0]);
  check_block(shape_of, gate, {hidden, width});
  check_block(shape_of, queries, {query, width});
  check_block(shape_of, block + "self_attn.o_proj.weight", {width, query});
  check(
      key[1] == width && head_dim > 0 && head_dim % 2 == 0 && query % head_dim == 0 && key[0] % head_dim == 0,
      "shape of ", keys, ": ", key, ", wanted heads of an even number of channels, as those of ", queries,
      " (", query, ", ", width, ")", qk_norm ? " and " + norm : "");
  return {.vocab_size = tokens[0],
          .layers = layers,
          .heads = query / head_dim,
          .kv_heads = key[0] / head_dim,
          .width = width,
          .hidden = hidden,
          .head_dim = query == width ? 0 : head_dim,
          .tied = !shape_of("lm_head.weight"),
          .qkv_bias = shape_of(block + "self_attn.q_proj.bias").has_value(),
          .qk_norm = qk_norm};
}

ResNetOptions resnet_options_of(const ShapeOf& shape_of) {
  Shape first = known(shape_of, "conv1.weight", 4);
  ResNetOptions o{
      .channels = first[1], .classes = known(shape_of, "fc.weight", 2)[0], .width = first[0], .blocks = {}};
  o.stem = first[2] == 3 ? ResNetStem::cifar : ResNetStem::imagenet;
  if (shape_of("layer1.0.conv3.weight")) o.block = ResNetBlock::bottleneck;
  auto of_block = [](int stage, int64_t i, const char* part) {
    return reprise::detail::join("layer", stage, '.', i, '.', part, ".weight");
  };
  int64_t width = o.width;
  for (int stage = 1; shape_of(of_block(stage, 0, "conv1")); ++stage, width *= 2) {
    int64_t& blocks = o.blocks.emplace_back(0);
    for (; shape_of(of_block(stage, blocks, "conv1")); ++blocks) {
      const std::string name = of_block(stage, blocks, "conv2");
      Shape shape = known(shape_of, name, 4);  // before a model is made, as above
      check(width > 0 && shape[0] == width && shape[1] == width, "shape of ", name, ": ", shape, ", wanted ",
            width, " channels");
    }
  }
  return o;
}

UNetOptions unet_options_of(const ShapeOf& shape_of) {
  const std::string convolution = ".double_conv.0.weight";
  Shape first = known(shape_of, "inc" + convolution, 4);
  UNetOptions o{.channels = first[1], .features = first[0], .depth = 0};
  o.classes = known(shape_of, "outc.conv.weight", 4)[0];
  if (shape_of("up1.up.weight")) o.up = UNetUp::transposed;
  if (!shape_of("inc.double_conv.1.running_mean")) {
    o.norm = UNetNorm::group;
    o.groups = 1;
  }
  auto down = [&](int64_t i) { return reprise::detail::join("down", i, ".maxpool_conv.1", convolution); };
  while (shape_of(down(o.depth + 1))) ++o.depth;
  int64_t width = o.features;
  for (int64_t i = 1; i <= o.depth; ++i) {  // before a model is made, as above
    const Shape shape = known(shape_of, down(i), 4);
    const int64_t out = o.up == UNetUp::bilinear && i == o.depth ? width : 2 * width;
    check(shape[0] == out && shape[1] == width, "shape of ", down(i), ": ", shape, ", wanted ", out, " and ",
          width, " channels");
    width = out;
  }
  return o;
}

NamedShapes state_of(const ModelOptions& options) {
  KeptGenerator kept;
  if (const auto* unet = std::get_if<UNetOptions>(&options))
    return with_layers(UNet(*unet).state_dict(), "", 1);
  if (const auto* resnet = std::get_if<ResNetOptions>(&options))
    return with_layers(ResNet(*resnet).state_dict(), "", 1);
  if (const auto* gpt = std::get_if<GptOptions>(&options)) {
    GptOptions one = *gpt;  // and small tables, which are a third of GPT-2
    one.layers = one.vocab_size = one.context = 1;
    NamedShapes state = with_layers(Gpt(one).state_dict(), "h.", gpt->layers);
    for (auto& [name, shape] : state) {
      if (name == "wte.weight") shape[0] = gpt->vocab_size;
      if (name == "wpe.weight") shape[0] = gpt->context;
    }
    return state;
  }
  if (const auto* llama = std::get_if<LlamaOptions>(&options)) {
    LlamaOptions one = *llama;
    one.layers = one.vocab_size = one.context = 1;
    NamedShapes state = with_layers(Llama(one).state_dict(), "model.layers.", llama->layers);
    for (auto& [name, shape] : state)
      if (name == "model.embed_tokens.weight" || name == "lm_head.weight") shape[0] = llama->vocab_size;
    return state;
  }
  VitOptions one = std::get<VitOptions>(options);
  const int64_t layers = std::exchange(one.layers, 1);
  return with_layers(Vit(one).state_dict(), "blocks.", layers);
}

}  // namespace reprise::nn
