#include "reprise/apps/vit/recipes.h"

#include <fmt/core.h>

#include "reprise/core/error.h"

namespace reprise::apps::vit {
namespace {

using Options = std::map<std::string, std::string>;

Options with(Options options, const Options& more) {
  for (const auto& [name, value] : more) options[name] = value;
  return options;
}

std::string rate(double per_512, int64_t rows) { return fmt::format("{}", per_512 * double(rows) / 512); }

// ViT-S/16 as timm has it.
const Options small_vit = {{"model", "small"}, {"image", "224"},  {"channels", "3"}, {"patch", "16"},
                           {"stem", "patch"},  {"pool", "token"}, {"crop", "0.875"}, {"eval-batches", "0"}};

// He et al. 2016, and what nearly all ResNets since were trained with.
const Options sgd = {{"optimizer", "sgd"}, {"momentum", "0.9"}, {"channels", "3"},
                     {"smoothing", "0"},   {"clip", "0"},       {"warmup-epochs", "0"}};

}  // namespace

Options recipe_options(const std::string& name, int64_t rows) {
  if (name == "fashion")
    return {};  // the defaults: 89.2 % of the test images after six epochs, measured in PyTorch
  // torchvision's ResNet-50 of 2016: 0.1 for 256 rows, a tenth of it after 30 and after 60 epochs.
  if (name == "resnet")
    return with(sgd, {{"model", "resnet50"},
                      {"stem", "imagenet"},
                      {"image", "224"},
                      {"crop", "0.875"},
                      {"lr", rate(0.2, rows)},
                      {"weight-decay", "1e-4"},
                      {"decay", "step"},
                      {"epochs", "90"}});
  if (name == "resnet-cifar")
    return with(sgd, {{"model", "resnet18"},
                      {"stem", "cifar"},
                      {"image", "32"},
                      {"lr", rate(0.2, rows)},
                      {"weight-decay", "5e-4"},
                      {"epochs", "30"}});
  // CIFAR-10 in minutes, after Keller Jordan 2024 (airbench), on a narrow ResNet-18: short, with a high rate that falls in
  // a straight line.
  if (name == "cifar")
    return with(sgd, {{"model", "resnet18"},
                      {"stem", "cifar"},
                      {"width", "32"},
                      {"image", "32"},
                      {"nesterov", "true"},
                      {"smoothing", "0.2"},
                      {"lr", rate(0.4, rows)},
                      {"weight-decay", "5e-4"},
                      {"decay", "linear"},
                      {"warmup-epochs", "3"},
                      {"epochs", "15"}});
  // Touvron et al. 2021: rate for 512 rows, repeated augmentation, no clipping.
  if (name == "deit")
    return with(small_vit, {{"lr", rate(5e-4, rows)},
                            {"min-lr", "1e-5"},
                            {"epochs", "300"},
                            {"warmup-epochs", "5"},
                            {"clip", "0"},
                            {"drop-path", "0.1"},
                            {"repeats", "3"},
                            {"ema", "0.99996"}});
  // Touvron et al. 2022, of the small model: 2,048 rows. Their optimizer cuts the gradient's norm off at 1, as --clip does.
  if (name == "deit3")
    return with(small_vit, {{"optimizer", "lamb"},
                            {"loss", "bce"},
                            {"lr", "4e-3"},
                            {"min-lr", "1e-5"},
                            {"epochs", "800"},
                            {"warmup-epochs", "5"},
                            {"smoothing", "0"},
                            {"drop-path", "0.05"},
                            {"layer-scale", "1e-4"},
                            {"no-embed-class", "true"},
                            {"repeats", "3"},
                            {"crop", "1"}});
  // Wang et al. 2026: ViT-5 trains as DeiT III does.
  if (name == "vit5") return with(recipe_options("deit3", rows), {{"model", "vit5_small"}});
  // Beyer et al. 2022 (big_vision's vit_s16_i1k): 1,024 rows.
  if (name == "simple")
    return with(small_vit, {{"lr", "1e-3"},
                            {"weight-decay", "0.1"},
                            {"epochs", "90"},
                            {"warmup", "10000"},
                            {"pool", "avg"},
                            {"positions", "sincos"},
                            {"smoothing", "0"}});
  if (name == "finetune")
    return with(small_vit, {{"lr", rate(5e-4, rows)},
                            {"epochs", "100"},
                            {"warmup-epochs", "5"},
                            {"layer-decay", "0.75"},
                            {"crop", "0.9"},
                            {"drop-path", "0.1"}});
  fail("--recipe ", name, ": there are ", recipe_names);
}

}  // namespace reprise::apps::vit
