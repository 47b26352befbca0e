// reprise-vit eval.
#include <fmt/core.h>

#include "reprise/apps/common/config_file.h"
#include "reprise/apps/common/training_run.h"
#include "reprise/apps/vit/evaluate.h"
#include "reprise/apps/vit/images.h"
#include "reprise/core/number_in.h"
#include "reprise/io/folder.h"
#include "reprise/train/output.h"

namespace reprise::apps::vit {
namespace {

// What the run was trained on, split as it was; or other images.
ImageData images_of(const EvalCommand& c, const std::string& run_folder) {
  ImageOptions options;
  std::string path = run_folder + "/config.toml";
  int64_t seed = 0;
  if (io::exists(path)) {
    std::map<std::string, std::string> config = read_config(path);
    options.data = config["data"];
    options.val_fraction = number_in<double>(config["val-fraction"]).value_or(options.val_fraction);
    seed = number_in<int64_t>(config["seed"]).value_or(seed);
  } else {
    check(!c.data.empty(), "--data is missing, and there is no ", path, " that says what it was");
  }
  if (!c.data.empty()) options.data = c.data;
  return load_images(options, uint64_t(seed));
}

std::string json_of(const Evaluation& e) {
  std::string classes;
  for (size_t i = 0; i < e.confusion.names.size(); ++i)
    classes += fmt::format("{}{:.6f}", i ? ", " : "", e.confusion.images_of(i) ? e.confusion.recall(i) : 0.0);
  return fmt::format(
      "{{\"images\": {}, \"unreadable\": {}, \"top1\": {:.6f}, \"top5\": {:.6f}, \"loss\": {:.6f}, "
      "\"recall\": [{}]}}\n",
      e.images, e.bad_images.size(), e.top1(), e.top5(), e.loss, classes);
}

}  // namespace

int run_eval(const EvalCommand& c) {
  const Device device = Device::parse(c.device);
  use_attention(c.attention, device);
  LoadedRun run = load_run(c.run, device);
  ImageData images = images_of(c, run.folder);
  const data::Dataset& part = c.part == "test" && images.test ? *images.test : *images.validation;
  check(part.class_names() == run.classifier.class_names, "eval: the classes of the data are not those of ",
        run.folder);
  Evaluation e = evaluate(*run.model, part, evaluation_pipeline(run.classifier), c.batch);
  if (c.json) {
    train::print("{}", json_of(e));
    return 0;
  }
  train::print("top-1 {:.2f} %, top-5 {:.2f} %, loss {:.4f} over {} images", 100 * e.top1(), 100 * e.top5(),
               e.loss, e.images);
  if (!e.bad_images.empty()) train::print("; {} unreadable", e.bad_images.size());
  train::print("\n");
  for (size_t i = 0; i < e.confusion.names.size(); ++i)
    train::print("  {:<20} {:6.2f} % of {}\n", train::for_output(e.confusion.names[i]),
                 100 * e.confusion.recall(i), e.confusion.images_of(i));
  for (const std::string& reason : e.bad_images) train::warn("warning: {}\n", reason);
  return 0;
}

}  // namespace reprise::apps::vit
