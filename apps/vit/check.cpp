// reprise-vit check.
#include <fmt/core.h>

#include <map>
#include <mutex>

#include "reprise/apps/vit/options.h"
#include "reprise/core/parallel.h"
#include "reprise/train/output.h"

namespace reprise::apps::vit {
namespace {

struct Findings {
  std::map<std::pair<int64_t, int64_t>, int64_t> sizes;  // images by height and width
  std::vector<int64_t> of_class;
  std::map<int64_t, std::string> bad;  // why, by index
};

Findings look_at(const data::Dataset& images, const ImageOptions& o) {
  Findings found;
  found.of_class.resize(size_t(images.classes()));
  std::mutex mutex;
  parallel_for(images.size(), 16, [&](int64_t begin, int64_t end) {
    io::Image image;
    for (int64_t i = begin; i < end; ++i) {
      std::string reason;
      try {
        images.read(i, {.apply_exif = o.exif == "apply"}, image);
      } catch (const Error& error) { reason = error.what(); }
      std::lock_guard lock(mutex);
      ++found.of_class[size_t(images.label(i))];
      if (reason.empty())
        ++found.sizes[{image.height, image.width}];
      else
        found.bad[i] = reason;
    }
  });
  return found;
}

void print_part(const char* name, const data::Dataset& images, const Findings& found) {
  train::print("{}: {} images, {} classes, {} unreadable\n", name, images.size(), images.classes(),
               found.bad.size());
  const auto& [most, count] =
      *std::max_element(found.sizes.begin(), found.sizes.end(),
                        [](const auto& a, const auto& b) { return a.second < b.second; });
  if (!found.sizes.empty())
    train::print("  {} sizes, most often {} x {} ({} images)\n", found.sizes.size(), most.first, most.second,
                 count);
  for (size_t i = 0; i < found.of_class.size(); ++i)
    train::print("  {:<20} {}\n", train::for_output(images.class_names()[i]), found.of_class[i]);
  for (const auto& [index, reason] : found.bad) train::warn("{}\n", train::for_output(reason));
}

}  // namespace

int run_check(const CheckCommand& c) {
  ImageData images = load_images(c.images, 0);
  bool all_good = true;
  for (auto [name, part] : {std::pair<const char*, const data::Dataset*>{"to train on", images.train.get()},
                            {"held out", images.validation.get()},
                            {"test", images.test.get()}}) {
    if (!part) continue;
    Findings found = look_at(*part, c.images);
    print_part(name, *part, found);
    all_good &= found.bad.empty();
  }
  return all_good ? 0 : 2;
}

}  // namespace reprise::apps::vit
