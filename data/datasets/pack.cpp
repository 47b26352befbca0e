#include "reprise/data/datasets/pack.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "reprise/core/error.h"
#include "reprise/core/parallel.h"
#include "reprise/core/quote.h"
#include "reprise/data/transforms/resize.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/images/jpeg.h"
#include "reprise/io/images/png.h"
#include "reprise/io/tar.h"

namespace reprise::data {
namespace {

// Threads encode so many images at once, which are then written in their order.
constexpr int64_t images_at_once = 64;

struct Encoded {
  std::string file;
  std::string reason;  // why there is none
};

bool is_gray(const io::Image& image) {
  for (size_t i = 0; i < image.pixels.size(); i += 3)
    if (image.pixels[i] != image.pixels[i + 1] || image.pixels[i] != image.pixels[i + 2]) return false;
  return true;
}

void drop_colour(io::Image& image) {
  const size_t pixels = image.pixels.size() / 3;
  for (size_t i = 0; i < pixels; ++i) image.pixels[i] = image.pixels[3 * i];
  image.resize(image.height, image.width, 1);
}

std::string encode(const Dataset& dataset, int64_t index, const PackOptions& o) {
  io::Image image;
  TransformScratch scratch;
  dataset.read(index, {.apply_exif = o.apply_exif}, image);
  if (std::min(image.height, image.width) > o.short_side) {
    Draws none(0, 0, 0, 0);
    Resize({.size = o.short_side, .filter = Filter::bicubic}).apply(image, none, scratch);
  }
  if (is_gray(image)) drop_colour(image);
  return o.png ? io::encode_png(image) : io::encode_jpeg(image, o.quality);
}

std::string numbered(const char* format, int64_t number) {
  char text[40];
  std::snprintf(text, sizeof text, format, static_cast<long long>(number));
  return text;
}

// Shards one after the other; the last one may be small.
class ShardWriter {
 public:
  ShardWriter(std::string folder, uint64_t shard_bytes)
      : folder_(std::move(folder)), shard_bytes_(shard_bytes) {}

  void add(const std::string& key, const char* ending, const std::string& file, int64_t label) {
    if (!tar_)
      tar_ = std::make_unique<io::TarWriter>(folder_ + "/" + numbered("shard-%05lld.tar", packed.shards++));
    tar_->add(key + ending, file);
    tar_->add(key + ".cls", std::to_string(label));
    ++packed.images;
    if (tar_->bytes() >= shard_bytes_) finish();
  }
  void finish() {
    if (!tar_) return;
    tar_->commit();
    packed.bytes += tar_->bytes();
    tar_.reset();
  }

  Packed packed{};

 private:
  std::string folder_;
  uint64_t shard_bytes_;
  std::unique_ptr<io::TarWriter> tar_{};
};

std::string lines_of(const std::vector<std::string>& class_names) {
  std::string lines;
  for (const std::string& name : class_names) {
    check(!name.empty() && name.find_first_of("\r\n") == std::string::npos, "pack: the name of class ",
          quote(name), " is no line of classes.txt");
    lines += name + '\n';
  }
  return lines;
}

}  // namespace

Packed pack(const Dataset& dataset, const std::string& folder, const PackOptions& o,
            const std::function<void(int64_t done)>& step) {
  check(o.short_side > 0 && o.quality >= 1 && o.quality <= 100, "pack: a short side of ", o.short_side,
        " pixels, quality ", o.quality);
  const std::string names = lines_of(dataset.class_names());
  ShardWriter writer(folder, o.shard_bytes);
  for (int64_t first = 0; first < dataset.size(); first += images_at_once) {
    std::vector<Encoded> batch(size_t(std::min(images_at_once, dataset.size() - first)));
    parallel_tasks(int64_t(batch.size()), [&](int64_t i) {
      try {
        batch[size_t(i)].file = encode(dataset, first + i, o);
      } catch (const Error& error) { batch[size_t(i)].reason = error.what(); }
    });
    for (int64_t i = 0; i < int64_t(batch.size()); ++i) {
      const auto& [file, reason] = batch[size_t(i)];
      if (reason.empty()) {
        writer.add(numbered("%09lld", first + i), o.png ? ".png" : ".jpg", file, dataset.label(first + i));
        continue;
      }
      check(o.skip_bad, reason, " (image ", first + i, ")");
      writer.packed.bad_images.push_back(reason);
    }
    if (step) step(first + int64_t(batch.size()));
  }
  writer.finish();
  io::write_file(folder + "/classes.txt", names);
  return writer.packed;
}

}  // namespace reprise::data
