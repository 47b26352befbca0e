// The vision transformer.
#include "reprise/nn/models/vit.h"

#include "reprise/autograd/grad_mode.h"
#include "reprise/core/listing.h"
#include "reprise/core/number_in.h"
#include "reprise/nn/init.h"
#include "reprise/nn/transformers/positions.h"

namespace reprise::nn {
namespace {

constexpr double token_stddev = 1e-6;

// Options that every part may rely on.
const VitOptions& checked(const VitOptions& o) {
  Listing wrong;
  if (o.image < 1 || o.patch < 1 || o.image % o.patch != 0)
    wrong.add("image ", o.image, " is not a multiple of patch ", o.patch);
  if (o.heads < 1 || o.width < 1 || o.width % o.heads != 0)
    wrong.add("width ", o.width, " is not a multiple of ", o.heads, " heads");
  if (o.layers < 1) wrong.add("at least one layer is needed, got ", o.layers);
  if (o.channels < 1) wrong.add("at least one channel is needed, got ", o.channels);
  if (o.pool == Pool::none ? o.classes != 0 : o.classes < 1)
    wrong.add(o.classes, " classes with ", o.pool == Pool::none ? "no head" : "a head");
  if (o.registers < 0) wrong.add("registers must be at least 0, got ", o.registers);
  if (o.pool == Pool::token && !o.class_token) wrong.add("pool is the class token, and there is none");
  if (o.positions == Positions::sincos && o.width % 4 != 0)
    wrong.add("sincos positions need a width that is a multiple of 4, got ", o.width);
  if (o.rope && o.heads >= 1 && o.width / o.heads % 4 != 0)
    wrong.add("rope needs heads whose width is a multiple of 4, got ", o.width / o.heads);
  if (!(o.drop_path >= 0 && o.drop_path < 1)) wrong.add("drop_path must be in [0, 1), got ", o.drop_path);
  check(wrong.empty(), "Vit: the options do not fit:", wrong.str());
  return o;
}

BlockOptions block_options(const VitOptions& o, int64_t block, const std::shared_ptr<Rope>& rope) {
  return {.causal = false,
          .qkv_bias = o.qkv_bias,
          .dropout = o.dropout,
          .drop_path = o.layers == 1 ? 0 : o.drop_path * double(block) / double(o.layers - 1),
          .layer_scale = o.layer_scale,
          .norm = o.norm,
          .norm_eps = o.norm_eps,
          .qk_norm = o.qk_norm,
          .rope = rope,
          .init_stddev = transformer_stddev,
          .activation = Activation::gelu};
}

}  // namespace

VitOptions vit_preset(std::string_view name) {
  if (name == "tiny") return {.width = 192, .layers = 12, .heads = 3};
  if (name == "small") return {.width = 384, .layers = 12, .heads = 6};
  if (name == "base") return {.width = 768, .layers = 12, .heads = 12};
  if (name == "large") return {.width = 1024, .layers = 24, .heads = 16};
  if (name == "vit5_small" || name == "vit5_base") {
    VitOptions o = vit_preset(name.substr(name.find('_') + 1));
    o.registers = 4;
    o.no_embed_class = o.qk_norm = o.rope = true;
    o.layer_scale = 1e-4;
    o.qkv_bias = false;
    o.norm = NormKind::rms;
    return o;
  }
  fail("vit_preset: unknown size '", name, "'; use tiny, small, base or large, vit5_small or vit5_base");
}

VitOptions patch_encoder(VitOptions o) {
  o.classes = 0;
  o.class_token = false;
  o.pool = Pool::none;
  o.positions = Positions::sincos;
  return o;
}

Vit::Vit(const VitOptions& options, Device device)
    : patch_embed(checked(options).width,
                  {.patch = options.patch, .channels = options.channels, .stem = options.stem}, device),
      blocks({.name = "blocks",
              .alike = options.drop_path == 0,
              .before = [this](const Tensor& x) { return x.rank() == 3 ? x : embed(x); },
              .after = [this](const Tensor& x, const Tensor&) { return loss_after(x); },
              .model = this}),
      position_dropout(options.dropout),
      head_dropout(options.head_dropout),
      options_(options) {
  make_tokens(device);
  register_module("patch_embed", patch_embed);
  register_module("position_dropout", position_dropout);
  register_module("blocks", blocks);
  const int64_t side = options.image / options.patch;
  std::shared_ptr<Rope> rope;
  if (options.rope)
    rope = std::make_shared<Rope>(Grid{side, side}, prefix_tokens(), options.width / options.heads, device);
  for (int64_t i = 0; i < options.layers; ++i)
    blocks.add<TransformerBlock>(options.width, options.heads, block_options(options, i, rope), device);
  blocks.set_recompute(options.recompute);
  const bool norms_mean = options.pool == Pool::avg;
  (norms_mean ? fc_norm : norm)
      .emplace(options.norm, options.width, LayerNormOptions{.eps = options.norm_eps}, device);
  register_module(norms_mean ? "fc_norm" : "norm", norms_mean ? *fc_norm : *norm);
  register_module("head_dropout", head_dropout);
  if (options.pool != Pool::none) {
    head.emplace(options.width, options.classes, LinearOptions{.init_stddev = transformer_stddev}, device);
    register_module("head", *head);
  }
  if (options.init == VitInit::jax) init_as_jax();
}

void Vit::init_as_jax() {
  NoGrad guard;
  const double mlp_bias_stddev = 1e-6;
  for (const auto& [name, p] : named_parameters()) {
    const bool is_bias = name.ends_with(".bias");
    if (name.starts_with("head.") || name == "patch_embed.proj.bias")
      p.zero_();
    else if (name == "patch_embed.proj.weight")
      p.copy_(lecun_init(p.shape(), p.device()));
    else if (name.starts_with("blocks.") && p.rank() == 2)
      p.copy_(xavier_init(p.shape(), p.device()));
    else if (is_bias && name.find(".mlp.") != std::string::npos)
      p.copy_(normal_init(p.shape(), mlp_bias_stddev, p.device()));
  }
}

void Vit::make_tokens(Device device) {
  const int64_t width = options_.width, side = options_.image / options_.patch;
  const int64_t embedded_prefix = options_.no_embed_class ? 0 : prefix_tokens();
  if (options_.class_token)
    cls_token =
        register_parameter("cls_token", normal_init({1, 1, width}, token_stddev, device), WeightDecay::never);
  if (options_.registers > 0)
    reg_token = register_parameter(
        "reg_token", normal_init({1, options_.registers, width}, token_stddev, device), WeightDecay::never);
  if (options_.positions == Positions::learned) {
    pos_embed = register_parameter(
        "pos_embed", normal_init({1, embedded_prefix + side * side, width}, transformer_stddev, device),
        WeightDecay::never);
    return;
  }
  Tensor patches = sincos_positions({side, side}, width, device);
  pos_embed = register_buffer(
      "pos_embed", unsqueeze(concat({zeros({embedded_prefix, width}, DType::f32, device), patches}, 0), 0));
}

void Vit::check_images(const Tensor& images) const {
  const int64_t channels = options_.channels, side = options_.image;
  check(images.rank() == 4 && images.shape() == Shape{images.size(0), channels, side, side},
        "Vit: images must be (N, ", channels, ", ", side, ", ", side, "), got ", images.shape());
}

Tensor Vit::embed(const Tensor& images) const {
  check_images(images);
  Tensor x = patch_embed(images);  // (N, patches, width)
  if (options_.no_embed_class) x = x + pos_embed;
  TensorList parts;
  for (const Tensor& token : {cls_token, reg_token})
    if (token.defined()) parts.push_back(expand(token, {x.size(0), token.size(1), x.size(2)}));
  parts.push_back(x);
  if (parts.size() > 1) x = concat(parts, 1);  // (N, tokens, width)
  if (!options_.no_embed_class) x = x + pos_embed;
  return position_dropout(x);
}

Tensor Vit::features(const Tensor& images) const {
  check_unchanged("features");
  return tokens_of(images);
}

Tensor Vit::tokens_of(const Tensor& images) const {
  check_images(images);  // three dimensions would be tokens to the blocks
  Tensor x = blocks(images);
  return norm ? (*norm)(x) : x;
}

// Tokens (N, tokens, width), normed where timm norms them -> logits.
Tensor Vit::classify(const Tensor& x) const {
  Tensor pooled =
      options_.pool == Pool::token ? select(x, 1, 0) : mean(slice(x, 1, prefix_tokens(), x.size(1)), {1});
  if (fc_norm) pooled = fc_norm->forward(pooled, for_product(pooled));
  return (*head)(head_dropout(pooled));  // (N, classes)
}

Tensor Vit::forward(const Tensor& images) {
  if (!head) return tokens_of(images);
  check_images(images);
  return classify(for_head(blocks(images)));
}

Tensor Vit::for_head(const Tensor& x) const { return norm ? norm->forward(x, for_product(x)) : x; }

// What a training step ends with, for the planner; which targets it has changes no cost.
Tensor Vit::loss_after(const Tensor& x) const {
  if (head) return cross_entropy(classify(for_head(x)), zeros({x.size(0)}, DType::i64, x.device()));
  Tensor y = norm ? (*norm)(x) : x;
  return planned_loss ? planned_loss(y) : sum(y);
}

int64_t Vit::layer_of(std::string_view parameter) const {
  const std::string_view blocks_prefix = "blocks.";
  if (parameter.starts_with(blocks_prefix)) {
    parameter.remove_prefix(blocks_prefix.size());
    const auto block = number_in<int64_t>(parameter.substr(0, parameter.find('.')));
    check(block && *block >= 0 && *block < options_.layers, "Vit: layer_of: no parameter blocks.", parameter);
    return *block + 1;
  }
  if (parameter.starts_with("norm.")) return options_.layers;
  if (parameter.starts_with("fc_norm.") || parameter.starts_with("head.")) return options_.layers + 1;
  check(parameter.starts_with("patch_embed.") || parameter == "cls_token" || parameter == "reg_token" ||
            parameter == "pos_embed",
        "Vit: layer_of: no parameter ", parameter);
  return 0;
}

double Vit::flops_per_image() const {
  double pixels = double(options_.image * options_.image);  // of a channel, where a stem has come to
  double products = 0;                                      // a multiplication and an addition each
  const double patches = pixels / double(options_.patch * options_.patch);
  const double tokens = patches + double(prefix_tokens());
  for (const auto& [name, parameter] : named_parameters()) {
    const double count = double(parameter.numel());
    if (name.starts_with("blocks.") && parameter.rank() == 2) products += count * tokens;
    if (name == "patch_embed.proj.weight") products += count * patches;
    if (name == "head.weight") products += count;
    if (name.starts_with("patch_embed.stem.") && parameter.rank() == 4) products += count * (pixels /= 4);
  }
  products += 2.0 * double(options_.layers * options_.width) * tokens * tokens;  // attention
  return 3 * 2 * products;
}

}  // namespace reprise::nn
