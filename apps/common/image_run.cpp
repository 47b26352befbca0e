#include "reprise/apps/common/image_run.h"

#include <cmath>
#include <map>

#include <fmt/core.h>

#include "reprise/apps/common/config_file.h"
#include "reprise/apps/common/ranks.h"
#include "reprise/apps/common/training_run.h"
#include "reprise/apps/common/validators.h"
#include "reprise/io/atomic_file.h"
#include "reprise/nn/models/vit.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"

namespace reprise::apps {

void add_epoch_options(CLI::App& group, ImageTrainingOptions& o) {
  group.add_option("--epochs", o.epochs, "Passes over the training images, where --steps is 0")
      ->check(number_from_0());
  group.add_option("--warmup-epochs", o.warmup_epochs, "Of linear warm-up, where --warmup is 0")
      ->check(number_from_0());
}

void take_preset(CLI::App& train, const std::string& name) {
  if (name.empty()) return;
  const nn::VitOptions preset = train::under_option("--model", [&] { return nn::vit_preset(name); });
  std::map<std::string, std::string> options = {{"width", std::to_string(preset.width)},
                                                {"layers", std::to_string(preset.layers)},
                                                {"heads", std::to_string(preset.heads)}};
  if (preset.rope)  // ViT-5's
    options.merge(std::map<std::string, std::string>{{"norm", "rms"},
                                                     {"qk-norm", "true"},
                                                     {"rope", "true"},
                                                     {"no-qkv-bias", "true"},
                                                     {"registers", std::to_string(preset.registers)},
                                                     {"layer-scale", fmt::format("{}", preset.layer_scale)},
                                                     {"no-embed-class", "true"},
                                                     {"pool", "token"},
                                                     {"stem", "patch"}});
  take_defaults(train, options, "--model " + name);
}

void count_steps(ImageTrainingOptions& o, int64_t images) {
  int64_t rows = 0;
  check(!__builtin_mul_overflow(o.batch, o.trainer.accumulate, &rows), "--batch ", o.batch,
        " and --accumulate ", o.trainer.accumulate, ": a step of so many images cannot be counted");
  auto steps_of = [&](double epochs, const char* option) {
    double steps = std::ceil(epochs * double(images * o.repeats) / double(rows));
    check(steps <= 1e15, option, ' ', epochs, ": so many steps cannot be counted");
    return int64_t(steps);
  };
  optim::Schedule& schedule = o.trainer.schedule;
  if (schedule.steps == 0) schedule.steps = steps_of(o.epochs, "--epochs");
  check(schedule.steps > 0, "--epochs ", o.epochs, " and --steps 0: there is nothing to train");
  if (schedule.warmup == 0)
    schedule.warmup = std::min(steps_of(o.warmup_epochs, "--warmup-epochs"), schedule.steps);
  if (o.trainer.eval_every == 0) o.trainer.eval_every = std::max<int64_t>(steps_of(1, "--epochs"), 1);
}

void check_resumed(const ImageTrainingOptions& o, const std::set<std::string>& fixed,
                   const ImageData& images) {
  const std::string& folder = o.trainer.run_folder;
  DataDifference data{.options = {"--data"}, .source = o.images.data, .known = has_data_record(folder)};
  if (data.known) data.text = difference_of_data(folder, images);
  check_changes(o, fixed, data);
}

void check_same_run(distributed::ProcessGroup& group, const ImageTrainingOptions& o,
                    const ImageData& images) {
  if (group.size() > 1) check_same_run(group, o, data_record(images), {"--data", "--workers", "--prefetch"});
}

void keep_options(const ImageTrainingOptions& o, const ImageData& images, int64_t first_step) {
  keep_config(o, first_step);
  if (o.change || first_step == 0) io::write_file(o.trainer.run_folder + "/data.toml", data_record(images));
}

data::LoaderOptions loader_options(const ImageTrainingOptions& o, double smoothing) {
  const distributed::LeafRange share = own_share(o);
  return {.batch = o.batch,
          .accumulate = o.trainer.accumulate,
          .share_begin = share.begin,
          .share = share.end - share.begin,
          .seed = uint64_t(o.seed),
          .repeats = o.repeats,
          .smoothing = smoothing,
          .workers = o.images.workers,
          .prefetch = o.images.prefetch,
          .bad_images = o.images.bad_images == "skip" ? data::BadImages::substitute : data::BadImages::error};
}

void keep_bad_images(const std::string& folder, const std::vector<std::string>& bad) {
  if (bad.empty()) return;
  std::string text;
  for (const std::string& reason : bad) text += reason + '\n';
  io::write_file(folder + "/bad_images.txt", text);
  train::report("{} images could not be read, and others of their classes stood in: {}/bad_images.txt\n",
                bad.size(), folder);
}

}  // namespace reprise::apps
