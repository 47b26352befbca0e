// The command line of `reprise-vit`.
#include "reprise/apps/vit/options.h"

#include "reprise/apps/common/command_line.h"
#include "reprise/apps/common/config_file.h"
#include "reprise/apps/common/training_run.h"
#include "reprise/apps/common/validators.h"
#include "reprise/apps/vit/model_choice.h"
#include "reprise/apps/vit/recipes.h"
#include "reprise/train/option_error.h"

namespace reprise::apps::vit {
namespace {

void add_model_options(CLI::App& app, TrainCommand& c) {
  auto* any = app.add_option_group("Model");
  nn::VitOptions& o = c.model;
  any->add_option("--recipe", c.recipe,
                  std::string("Published settings for what is left open:\n") + recipe_names);
  any->add_option("--model", c.preset,
                  "Width, layers and heads of a ViT: tiny, small, base or large; all of ViT-5's model:\n"
                  "vit5_small or vit5_base; or resnet18, resnet34 or resnet50");
  any->add_option("--image", o.image, "Pixels of an image's side, as the model sees it")
      ->transform(whole_from(1, 1 << 14));
  any->add_option("--channels", o.channels, "1 (gray) or 3 (colour)")->check(CLI::IsMember({1, 3}));
  any->add_option("--width", o.width,
                  "Size of the residual stream; of a ResNet, channels of its first stage (64)")
      ->transform(whole_from(1));
  any->add_option("--stem", c.stem,
                  "How patches become tokens: patch (a product) or conv (Xiao et al. 2021); how a\n"
                  "ResNet begins: imagenet (7 x 7, a quarter of the sides) or cifar (3 x 3)")
      ->check(CLI::IsMember({"patch", "conv", "imagenet", "cifar"}));
  auto* group = app.add_option_group(vit_group);
  group->add_option("--patch", o.patch, "Pixels of a patch's side")->transform(whole_from(1, 1 << 14));
  group->add_option("--layers", o.layers, "Transformer blocks")->transform(whole_from(1));
  group->add_option("--heads", o.heads, "Attention heads per block")->transform(whole_from(1));
  group->add_option("--pool", c.pool, "What the head sees: token (a class token) or avg (the patches' mean)")
      ->check(CLI::IsMember({"token", "avg"}));
  group->add_option("--positions", c.positions, "Position embeddings: learned or sincos")
      ->check(CLI::IsMember({"learned", "sincos"}));
  group->add_option("--registers", o.registers, "Register tokens (Darcet et al. 2024)")
      ->transform(whole_from(0));
  group->add_flag("--no-embed-class", o.no_embed_class, "Positions of the patches alone (DeiT III)");
  group->add_option("--layer-scale", o.layer_scale, "First value of LayerScale (0: none)")
      ->check(number_from_0());
  group->add_option("--norm", c.norm, "Of the blocks and behind them: layer (LayerNorm) or rms (RMSNorm)")
      ->check(CLI::IsMember({"layer", "rms"}));
  group->add_flag("--qk-norm", o.qk_norm, "Norms queries and keys, head by head (Dehghani et al. 2023)");
  group->add_flag("--rope", o.rope, "Rotary positions of the patches, beside the others (Su et al. 2021)");
  group->add_flag("--no-qkv-bias", c.no_qkv_bias, "No bias in the projection to queries, keys and values");
  group->add_option("--dropout", o.dropout, "Probability of dropout")->check(probability());
  group->add_option("--drop-path", o.drop_path, "Stochastic depth of the last block")->check(probability());
}

void add_recipe_options(CLI::App& app, TrainCommand& c) {
  auto* group = app.add_option_group("Recipe");
  add_epoch_options(*group, c);
  group->add_option("--optimizer", c.optimizer, "adamw, lamb (You et al. 2020) or sgd")
      ->check(CLI::IsMember({"adamw", "lamb", "sgd"}));
  group->add_option("--momentum", c.momentum, "Of sgd, as PyTorch has it")->check(probability());
  group->add_flag("--nesterov", c.nesterov, "Momentum looks ahead (sgd)");
  group
      ->add_option("--loss", c.loss,
                   "cross_entropy, or bce: each class is a yes or no of its own, and of mixed images\n"
                   "both are a yes (Touvron et al. 2022)")
      ->check(CLI::IsMember({"cross_entropy", "bce"}));
  group->add_option("--smoothing", c.smoothing, "Label smoothing (of cross_entropy)")->check(probability());
  group->add_option("--crop", c.crop, "Side of the evaluated middle in that of the resized image")
      ->check(above_0_to_1());
  group->add_option("--layer-decay", c.layer_decay, "Of the learning rate, from a layer to the one below")
      ->check(above_0_to_1());
  group->add_option("--repeats", c.repeats, "Of each image per epoch (repeated augmentation)")
      ->transform(whole_from(1, 1000));
}

void add_train(CLI::App& app, TrainCommand& o) {
  auto* train = app.add_subcommand("train", "Train a vision transformer or a ResNet");
  add_image_options(*train, o.images);
  add_worker_options(*train, o.images);
  add_model_options(*train, o);
  add_recipe_options(*train, o);
  add_optimizer_options(*train, o, "Images");
  add_run_options(*train, o, "vit");
  add_config_option(*train);
  train->option_defaults()->always_capture_default();
}

void add_eval(CLI::App& app, EvalCommand& o) {
  auto* eval = app.add_subcommand("eval", "Accuracy of a trained model: top-1, top-5, per class");
  add_read_run_option(*eval, o.run);
  eval->add_option("--data", o.data, "Other images than the run's")->check(not_empty());
  eval->add_option("--part", o.part, "test (where there is none, and else validation: what the run held out)")
      ->check(CLI::IsMember({"test", "validation"}));
  eval->add_option("--batch", o.batch, "Images at once")->transform(whole_from(1));
  add_device_options(*eval, o);
  eval->add_flag("--json", o.json, "Print one JSON object");
}

void add_predict(CLI::App& app, PredictCommand& o) {
  auto* predict = app.add_subcommand("predict", "The five most likely classes of each image file");
  predict->add_option("files", o.files, "Images: JPEG or PNG")->required();
  add_read_run_option(*predict, o.run);
  predict->add_flag("--invert", o.invert, "Dark on light, for a model that was trained on light on dark");
  add_device_options(*predict, o);
  predict->add_flag("--json", o.json, "Print one JSON object per image");
}

void add_pack(CLI::App& app, PackCommand& o) {
  auto* pack = app.add_subcommand("pack", "Write images, no larger than training needs, as tar shards");
  pack->add_option("--data", o.data, data_help)->required()->check(not_empty());
  pack->add_option("--out", o.out,
                   "Folder of the shards, a new one: train/, and val/ and test/ if there are such")
      ->required()
      ->check(not_empty());
  pack->add_option("--short-side", o.pack.short_side, "Pixels that the short side of larger images gets")
      ->transform(whole_from(1, 1 << 14));
  pack->add_flag("--png", o.pack.png, "Lossless, in place of JPEG");
  pack->add_option("--quality", o.pack.quality, "Of JPEG")->transform(whole_from(1, 100));
  pack->add_option("--exif", o.exif, "Orientation of photographs: apply (the pixels are turned) or ignore")
      ->check(CLI::IsMember({"apply", "ignore"}));
  pack->add_option("--bad-images", o.bad_images,
                   "An image that cannot be read: error (stop), or skip (it is left out)")
      ->check(CLI::IsMember({"error", "skip"}));
}

void add_show(CLI::App& app, ShowCommand& o) {
  auto* show = app.add_subcommand("show", "What training sees of its images: a page of them, to the pixel");
  show->add_option("--run", o.run, "A run folder, whose options are meant where they are left open")
      ->check(not_empty());
  show->add_option("--recipe", o.recipe, "As train's, where there is no --run");
  add_image_options(*show, o.images);
  auto* group = show->add_option_group("Sample");
  group->add_option("--index", o.index, "Of an image to train on (default: the first ones of the epoch)")
      ->transform(whole_from(0));
  group->add_option("--epoch", o.epoch, "From 0")->transform(whole_from(0, int64_t(1) << 31));
  group->add_option("--image", o.image, "Pixels of an image's side")->transform(whole_from(1, 1 << 14));
  group->add_option("--channels", o.channels, "1 (gray) or 3 (colour)")->check(CLI::IsMember({1, 3}));
  group->add_option("--seed", o.seed, "Of the run")->transform(whole_from(0));
  group->add_option("--batch", o.batch, "Rows of a micro-batch")->transform(whole_from(1));
  group->add_option("--accumulate", o.accumulate, "Micro-batches per update")->transform(whole_from(1));
  group->add_option("--repeats", o.repeats, "Of each image per epoch")->transform(whole_from(1, 1000));
  show->add_option("--out", o.out, "Folder of the page")->check(not_empty());
}

// Sets what the run or the recipe says of the options that decide what a sample becomes.
void take_shown_options(CLI::App& show, const ShowCommand& o) {
  const std::set<std::string> names = {"data",  "val-fraction", "exif", "decode", "bad-images", "recipe",
                                       "image", "channels",     "seed", "batch",  "accumulate", "repeats"};
  std::string source = "--recipe " + o.recipe;
  std::map<std::string, std::string> values;
  if (o.run.empty()) {
    values = recipe_options(o.recipe, o.batch * o.accumulate);
  } else {
    const std::string folder = run_folder_of(o.run);  // empty if there is none
    source = (folder.empty() ? o.run : folder) + "/config.toml";
    values = train::under_option("--run", [&] { return read_config(source); });
  }
  std::erase_if(values, [&](const auto& value) { return !names.contains(value.first); });
  take_defaults(show, values, source);
}

// Fashion-MNIST in minutes on two CPU cores.
TrainCommand default_train() {
  TrainCommand o;
  o.model = {.image = 28,
             .patch = 4,
             .channels = 1,
             .classes = 0,
             .width = 128,
             .layers = 4,
             .heads = 4,
             .class_token = false};
  o.batch = 128;
  o.eval_batches = 0;
  o.beta2 = 0.999;
  o.weight_decay = 0.05;
  o.trainer.schedule = {.lr = 2e-3, .min_lr = 0, .warmup = 0, .steps = 0};
  o.trainer.eval_every = 0;
  return o;
}

}  // namespace

Command parse_command_line(int argc, char** argv) {
  Command command;
  command.train = default_train();
  CLI::App app("reprise-vit: train a ViT or a ResNet on your images, evaluate it, let it look",
               "reprise-vit");
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  add_train(app, command.train);
  add_eval(app, command.eval);
  add_predict(app, command.predict);
  add_image_options(
      *app.add_subcommand("check", "Decode every image once: formats, sizes, classes, bad files"),
      command.check.images);
  add_pack(app, command.pack);
  add_show(app, command.show);
  parse_arguments(app, argc, argv);
  if (app.got_subcommand("show")) take_shown_options(*app.get_subcommand("show"), command.show);
  if (app.got_subcommand("train")) {
    CLI::App& train = *app.get_subcommand("train");
    TrainCommand& o = command.train;
    command.places = apply_config(train);
    take_run_options(train, o, {"--workers", "--prefetch"});
    if (!o.trainer.resume) {
      take_defaults(train, recipe_for(train, o), "--recipe " + o.recipe);
      take_model_defaults(train, o.preset);
    }
    keep_options_of_model(train, o, command.places);
    o.resolved = resolved_config(train);
  }
  using Kind = Command::Kind;
  for (auto [name, kind] : {std::pair{"train", Kind::train},
                            {"eval", Kind::eval},
                            {"predict", Kind::predict},
                            {"check", Kind::check},
                            {"pack", Kind::pack},
                            {"show", Kind::show}})
    if (app.got_subcommand(name)) command.kind = kind;
  return command;
}

}  // namespace reprise::apps::vit
