// I-JEPA.
#include "reprise/nn/models/jepa.h"

#include "reprise/autograd/grad_mode.h"
#include "reprise/core/listing.h"
#include "reprise/nn/init.h"
#include "reprise/nn/transformers/positions.h"

namespace reprise::nn {
namespace {

// The encoder's are checked by Vit.
const JepaOptions& checked(const JepaOptions& o) {
  Listing wrong;
  if (o.predictor_heads < 1 || o.predictor_width < 1 || o.predictor_width % o.predictor_heads != 0)
    wrong.add("predictor_width ", o.predictor_width, " is not a multiple of ", o.predictor_heads, " heads");
  if (o.predictor_width % 4 != 0)
    wrong.add("sincos positions need a predictor_width that is a multiple of 4, got ", o.predictor_width);
  if (o.predictor_layers < 1) wrong.add("the predictor needs at least one layer, got ", o.predictor_layers);
  check(wrong.empty(), "Jepa: the options do not fit:", wrong.str());
  return o;
}

VitOptions encoder_options(const JepaOptions& o) {
  return patch_encoder({.image = o.image,
                        .patch = o.patch,
                        .channels = o.channels,
                        .width = o.width,
                        .layers = o.layers,
                        .heads = o.heads,
                        .drop_path = o.drop_path,
                        .norm_eps = o.norm_eps});
}

Tensor normed(const Tensor& x) { return layer_norm(x, {}, {}); }

// Tells the planner of the encoder's blocks what a step ends with. The loss holds this call's tensors.
struct Planned {
  Planned(Vit& the_encoder, std::function<Tensor(const Tensor&)> loss) : encoder(the_encoder) {
    encoder.planned_loss = std::move(loss);
  }
  Planned(const Planned&) = delete;
  ~Planned() { encoder.planned_loss = {}; }
  Vit& encoder;
};

}  // namespace

JepaPredictor::JepaPredictor(const JepaOptions& o, Device device)
    : predictor_embed(o.width, checked(o).predictor_width, {.init_stddev = transformer_stddev}, device),
      predictor_blocks({.name = "predictor_blocks", .alike = true, .model = this}),
      predictor_norm(o.predictor_width, {.eps = o.norm_eps}, device),
      predictor_proj(o.predictor_width, o.width, {.init_stddev = transformer_stddev}, device) {
  const int64_t side = o.image / o.patch;
  register_module("predictor_embed", predictor_embed);
  mask_token =
      register_parameter("mask_token", normal_init({1, 1, o.predictor_width}, transformer_stddev, device));
  predictor_pos_embed = register_buffer(
      "predictor_pos_embed", unsqueeze(sincos_positions({side, side}, o.predictor_width, device), 0));
  for (int64_t i = 0; i < o.predictor_layers; ++i)
    predictor_blocks.add<TransformerBlock>(o.predictor_width, o.predictor_heads,
                                           BlockOptions{.causal = false,
                                                        .norm_eps = o.norm_eps,
                                                        .init_stddev = transformer_stddev,
                                                        .activation = Activation::gelu},
                                           device);
  predictor_blocks.set_recompute(o.recompute_predictor);
  register_module("predictor_blocks", predictor_blocks);
  register_module("predictor_norm", predictor_norm);
  register_module("predictor_proj", predictor_proj);
}

Tensor JepaPredictor::operator()(const Tensor& tokens, const Tensor& context, const Tensor& targets) const {
  const int64_t batch = targets.size(0), blocks = targets.size(1), asked_patches = targets.size(2);
  const int64_t seen_patches = context.size(1), width = predictor_pos_embed.size(2);
  const Tensor positions = reshape(predictor_pos_embed, {-1, width});       // (patches, D)
  Tensor seen = predictor_embed(tokens) + embedding(positions, context);    // (B, K, D)
  seen = expand(unsqueeze(seen, 1), {batch, blocks, seen_patches, width});  // the same for each block
  seen = reshape(seen, {batch * blocks, seen_patches, width});              // (B n, K, D)
  Tensor asked = reshape(embedding(positions, targets), {batch * blocks, asked_patches, width}) + mask_token;
  Tensor x = predictor_blocks(concat({seen, asked}, 1));        // (B n, K + M, D)
  x = slice(x, 1, seen_patches, seen_patches + asked_patches);  // (B n, M, D)
  x = predictor_norm.forward(x, for_product(x));
  return reshape(predictor_proj(x), {batch, blocks, asked_patches, -1});
}

Jepa::Jepa(const JepaOptions& options, Device device)
    : encoder(encoder_options(options), device),
      predictor(options, device),
      target_encoder(encoder_options(options), device),
      options_(options) {
  encoder.blocks.set_recompute(options.recompute);
  target_encoder.load_state_dict(encoder.state_dict());
  target_encoder.freeze();
  register_fixed("encoder", encoder);  // its blocks see a part of the tokens
  register_module("predictor", predictor);
  register_module("target_encoder", target_encoder);
}

Tensor Jepa::target_features(const Tensor& images) const {
  NoGrad guard;
  return normed(target_encoder(images));
}

Jepa::LossOf Jepa::loss_of(const Tensor& images, const Tensor& target_features, const Tensor& context,
                           const Tensor& targets) {
  const int64_t batch = images.size(0), width = options_.width;
  check(context.rank() == 2 && context.size(0) == batch && targets.rank() == 3 && targets.size(0) == batch,
        "Jepa: context (B, K) and targets (B, n, M) of ", batch, " images, got ", context.shape(), " and ",
        targets.shape());
  const Tensor wanted = reshape(take_tokens(target_features, reshape(targets, {batch, -1})),
                                {batch, targets.size(1), targets.size(2), width});
  return [this, context, targets, wanted](const Tensor& tokens) {
    return smooth_l1(predictor(tokens, context, targets), wanted);
  };
}

Tensor Jepa::loss(const Tensor& images, const Tensor& target_features, const Tensor& context,
                  const Tensor& targets) {
  const LossOf loss = loss_of(images, target_features, context, targets);
  const Planned planned(encoder, loss);
  return loss((*encoder.norm)(encoder.blocks(take_tokens(encoder.embed(images), context))));
}

recompute::Chain Jepa::profile(const Tensor& images, const Tensor& target_features, const Tensor& context,
                               const Tensor& targets, const recompute::ProfileOptions& options) {
  const Planned planned(encoder, loss_of(images, target_features, context, targets));
  return encoder.blocks.profile(take_tokens(encoder.embed(images), context), options);
}

double feature_std(const Tensor& features) {
  NoGrad guard;
  return mean(sqrt(variance(features, {0}))).item();
}

}  // namespace reprise::nn
