// reprise-vit eval.
#include <fmt/core.h>

#include "reprise/apps/common/memory_advice.h"
#include "reprise/apps/common/training_run.h"
#include "reprise/apps/vit/evaluate.h"
#include "reprise/apps/vit/model.h"
#include "reprise/apps/vit/options.h"
#include "reprise/apps/vit/pipelines.h"
#include "reprise/train/output.h"

namespace reprise::apps::vit {
namespace {

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
  const train::PrecisionScope precision = precision_scope(c, device, run.folder);
  take_precision(run.model->module(), c, run.folder);
  ImageData images = images_of_run(run.folder, c.data);
  const data::Dataset& part = c.part == "test" && images.test ? *images.test : *images.validation;
  check(part.class_names() == run.classifier.class_names, "eval: the classes of the data are not those of ",
        run.folder);
  const auto of_rows = [&](int64_t rows) {
    const int64_t channels = run.classifier.channels(), image = run.classifier.image;
    return softmax((*run.model)(zeros({rows, channels, image, image}, DType::f32, device)));
  };
  const Evaluation e = with_evaluation_advice(run.model->module(), c.batch, device, of_rows, [&] {
    return evaluate(*run.model, part, evaluation_pipeline(run.classifier), c.batch);
  });
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
