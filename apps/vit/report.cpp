#include "reprise/apps/vit/report.h"

#include <fmt/core.h>

#include <algorithm>

#include "reprise/apps/vit/attention_map.h"
#include "reprise/data/image_rows.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/folder.h"
#include "reprise/io/images/png.h"
#include "reprise/plot/image_plot.h"
#include "reprise/plot/page.h"
#include "reprise/plot/svg.h"

namespace reprise::apps::vit {
namespace {

constexpr size_t shown_answers = 40, shown_attention = 8;

// What a report is made of.
struct Subject {
  const ImageModel& model;
  const Classifier& classifier;
  const data::Dataset& images;
  const data::Pipeline& pipeline;
};

io::Image image_at(const Subject& s, int64_t index) {
  io::Image image;
  image.resize(s.classifier.image, s.classifier.image, s.classifier.channels());
  data::TransformScratch scratch;
  s.pipeline.read(s.images, {.index = index}, 0, image.pixels, scratch);
  return image;
}

// The image darkened where the weights are small: white on the most looked-at patch stays white.
io::Image lit_by(const io::Image& image, const float* weights, int64_t patch) {
  io::Image lit = image;
  const int64_t columns = image.width / patch, rows = image.height / patch;
  const float largest = *std::max_element(weights, weights + rows * columns);
  constexpr float dark = 0.15f;
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t i = 0; i < image.row_bytes(); ++i) {
      float weight = weights[y / patch * columns + i / image.channels / patch];
      float light = largest > 0 ? dark + (1 - dark) * weight / largest : 1;
      lit.row(y)[i] = uint8_t(float(image.row(y)[i]) * light + 0.5f);
    }
  return lit;
}

std::string percent(double share) { return plot::number(100 * share) + " %"; }

// The most confident mistakes, then the least confident right answers.
std::string draw_samples(const Subject& s, const Evaluation& evaluation) {
  std::vector<Answer> answers = evaluation.answers;
  auto before = [](const Answer& a, const Answer& b) {
    bool wrong_a = a.answer != a.label, wrong_b = b.answer != b.label;
    if (wrong_a != wrong_b) return wrong_a;
    return wrong_a ? a.probability > b.probability : a.probability < b.probability;
  };
  std::stable_sort(answers.begin(), answers.end(), before);
  answers.resize(std::min(answers.size(), shown_answers));
  std::vector<plot::Picture> pictures;
  for (const Answer& one : answers) {
    bool wrong = one.answer != one.label;
    std::vector<std::string> captions = {s.classifier.class_names[size_t(one.answer)] + " " +
                                         percent(one.probability)};
    captions.push_back(wrong ? "is: " + s.classifier.class_names[size_t(one.label)] : "right");
    pictures.push_back({io::encode_png(image_at(s, one.index)), captions, wrong});
  }
  return plot::draw_pictures(pictures, 8, 112);
}

// Of each image: itself, the last block's attention, and rollout.
std::string draw_attention(nn::Vit& vit, const Subject& s, const Evaluation& evaluation) {
  const int64_t count = std::min<int64_t>(shown_attention, int64_t(evaluation.answers.size()));
  const nn::VitOptions& o = vit.options();
  Tensor rows = Tensor::empty({count, o.image, o.image, o.channels}, DType::u8);
  std::vector<io::Image> images;
  for (int64_t i = 0; i < count; ++i) {
    images.push_back(image_at(s, evaluation.answers[size_t(i)].index));
    std::copy(images.back().pixels.begin(), images.back().pixels.end(),
              rows.data<uint8_t>() + i * s.pipeline.row_bytes());
  }
  AttentionMaps maps =
      attention_maps(vit, data::image_tensor(rows, data::table_on(s.pipeline, s.model.device())));
  std::vector<float> last = maps.last.to_vector<float>(), rollout = maps.rollout.to_vector<float>();
  const size_t patches = last.size() / size_t(count);
  std::vector<plot::Picture> pictures;
  for (const auto& [weights, name] : {std::pair<const float*, const char*>{nullptr, "image"},
                                      {last.data(), "last block"},
                                      {rollout.data(), "rollout"}})
    for (size_t i = 0; i < images.size(); ++i) {
      io::Image shown = weights ? lit_by(images[i], weights + i * patches, o.patch) : images[i];
      pictures.push_back({io::encode_png(shown), {name}});
    }
  return plot::draw_pictures(pictures, size_t(count), 112);
}

std::string section(const std::string& heading, const std::string& text, const std::string& body) {
  return "<section><h2>" + plot::escaped(heading) + "</h2>\n<p>" + plot::escaped(text) + "</p>\n" + body +
         "</section>\n";
}

}  // namespace

void write_report(const std::string& run_folder, const ImageModel& model, const Classifier& classifier,
                  const data::Dataset& images, const data::Pipeline& pipeline, const Evaluation& e) {
  const Subject subject{model, classifier, images, pipeline};
  auto keep = [&](const char* name, std::string picture) {
    io::write_file(run_folder + "/" + name, picture);
    return picture;
  };
  std::string body;
  if (std::string loss = run_folder + "/loss.svg"; io::exists(loss))
    body += section("Loss", "Per step, in nats per image.", io::read_file(loss));
  body += section("Confusion", "Rows are the true classes, columns the answers.",
                  keep("confusion.svg", plot::draw_confusion(e.confusion)));
  if (!e.answers.empty()) {
    body += section("Mistakes",
                    "The most confident first; then, if there is room, the least confident right answers.",
                    keep("samples.svg", draw_samples(subject, e)));
    if (model.vit())
      body += section("Attention",
                      "Bright where the model looks: the image, the last block's attention, and rollout.",
                      keep("attention.svg", draw_attention(*model.vit(), subject, e)));
  }
  std::string subtitle = fmt::format("top-1 {}, top-5 {}, loss {:.4f} over {} images", percent(e.top1()),
                                     percent(e.top5()), e.loss, e.images);
  if (!e.bad_images.empty()) subtitle += fmt::format("; {} unreadable", e.bad_images.size());
  io::write_file(run_folder + "/report.html", plot::page("Image classifier", subtitle, body));
}

}  // namespace reprise::apps::vit
