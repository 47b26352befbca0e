#include "reprise/apps/common/images.h"

#include <fmt/core.h>

#include <numeric>
#include <optional>

#include "reprise/apps/common/config_file.h"
#include "reprise/apps/common/validators.h"
#include "reprise/core/number_in.h"
#include "reprise/data/datasets/cifar.h"
#include "reprise/data/datasets/idx_dataset.h"
#include "reprise/data/datasets/image_folder.h"
#include "reprise/data/datasets/subset.h"
#include "reprise/data/datasets/tar_shards.h"
#include "reprise/io/crc32c.h"
#include "reprise/io/folder.h"
#include "reprise/train/option_error.h"

namespace reprise::apps {
namespace {

using DatasetPointer = std::shared_ptr<const data::Dataset>;

const std::string debians_fashion_mnist =
    "/usr/share/datasets/fashion-mnist";  // package dataset-fashion-mnist

// "cifar10:DIR" -> {"cifar10", "DIR"}; what has no such word before a colon is a path.
std::pair<std::string, std::string> kind_and_folder(const std::string& source) {
  for (std::string kind : {"fashion-mnist", "idx", "cifar10", "cifar100"})
    if (source.starts_with(kind + ':')) return {kind, source.substr(kind.size() + 1)};
  return {"", source};
}

DatasetPointer open_pixels(const std::string& kind, const std::string& folder, data::Split split) {
  auto pixels = [&] {
    if (kind == "fashion-mnist") return data::fashion_mnist(split, folder);
    if (kind == "cifar10") return data::cifar10(folder, split);
    if (kind == "cifar100") return data::cifar100(folder, split);
    const char* part = split == data::Split::train ? "train" : "t10k";
    return data::idx_dataset(fmt::format("{}/{}-images-idx3-ubyte", folder, part),
                             fmt::format("{}/{}-labels-idx1-ubyte", folder, part));
  };
  return std::make_shared<data::PixelDataset>(pixels());
}

bool holds_shards(const std::string& folder) {
  for (const std::string& name : io::names_in(folder))
    if (name.ends_with(".tar")) return true;
  return false;
}

DatasetPointer open_folder(const std::string& folder, const std::vector<std::string>& class_names) {
  if (holds_shards(folder))
    return std::make_shared<data::TarShards>(data::shards_in(folder),
                                             data::TarShardsOptions{.class_names = class_names});
  return std::make_shared<data::ImageFolder>(folder, data::ImageFolderOptions{.class_names = class_names});
}

// A folder of images or shards, or of such for each part.
ImageData open_folders(const std::string& root) {
  ImageData images;
  std::optional<std::string> train = data::split_folder(root, data::Split::train);
  images.train = open_folder(train.value_or(root), {});
  if (!train) return images;
  if (auto held_out = data::split_folder(root, data::Split::validation))
    images.validation = open_folder(*held_out, images.train->class_names());
  if (auto test = data::split_folder(root, data::Split::test))
    images.test = open_folder(*test, images.train->class_names());
  return images;
}

std::string path_of_record(const std::string& run_folder) { return run_folder + "/data.toml"; }

// Images are known by their names and classes: reading all of them would take longer than a run's first epoch.
uint32_t checksum(const data::Dataset& images) {
  uint32_t crc = 0;
  for (const std::string& name : images.class_names()) crc = io::crc32c(name + '\n', crc);
  for (int64_t i = 0; i < images.size(); ++i)
    crc = io::crc32c(images.name(i) + ' ' + std::to_string(images.label(i)) + '\n', crc);
  return crc;
}

std::map<std::string, std::string> values_of(const ImageData& images) {
  return {{"train-images", std::to_string(images.train->size())},
          {"train-crc32c", fmt::format("{:08x}", checksum(*images.train))},
          {"validation-images", std::to_string(images.validation->size())},
          {"validation-crc32c", fmt::format("{:08x}", checksum(*images.validation))}};
}

}  // namespace

void add_image_options(CLI::App& app, ImageOptions& o) {
  auto* group = app.add_option_group("Data");
  group->add_option("--data", o.data, data_help)->check(not_empty());
  group
      ->add_option("--val-fraction", o.val_fraction,
                   "Part of the training images that is held out, where there is no val/")
      ->check(fraction());
  group->add_option("--exif", o.exif, "Orientation of photographs: apply (as people see them) or ignore")
      ->check(CLI::IsMember({"apply", "ignore"}));
  group
      ->add_option("--decode", o.decode,
                   "JPEGs to train on: exact (every pixel), or fast (at 1/2 or 1/4 of their size where a\n"
                   "random crop stays twice what it becomes: for large photographs; other values)")
      ->check(CLI::IsMember({"exact", "fast"}));
  group
      ->add_option("--bad-images", o.bad_images,
                   "An image that cannot be read: error (stop), or skip (another one of its class\n"
                   "stands in; the run folder lists them)")
      ->check(CLI::IsMember({"error", "skip"}));
}

void add_worker_options(CLI::App& app, ImageOptions& o) {
  auto* group = app.add_option_group("Workers");
  group->add_option("--workers", o.workers, "Threads that decode and augment (0: none of their own)")
      ->transform(whole_from(0, 1024));
  group->add_option("--prefetch", o.prefetch, "Batches that they work ahead")->transform(whole_from(1, 64));
}

ImageData open_images(const std::string& source) {
  return train::under_option("--data", [&] {
    auto [kind, folder] =
        kind_and_folder(source == "fashion-mnist" ? "fashion-mnist:" + debians_fashion_mnist : source);
    if (kind.empty()) return open_folders(folder);
    return ImageData{.train = open_pixels(kind, folder, data::Split::train),
                     .validation = nullptr,
                     .test = open_pixels(kind, folder, data::Split::test)};
  });
}

data::Decoding decoding_of(const ImageOptions& o) {
  return o.decode == "fast" ? data::Decoding::fast : data::Decoding::exact;
}

ImageData load_images(const ImageOptions& o, uint64_t seed) {
  ImageData images = open_images(o.data);
  if (images.validation) return images;
  auto [train, held_out] =
      train::under_option("--data", [&] { return data::hold_out(images.train, o.val_fraction, seed); });
  images.train = std::make_shared<data::Subset>(std::move(train));
  images.validation = std::make_shared<data::Subset>(std::move(held_out));
  return images;
}

ImageData images_of_run(const std::string& run_folder, const std::string& data) {
  ImageOptions options;
  std::string path = run_folder + "/config.toml";
  int64_t seed = 0;
  if (io::exists(path)) {
    std::map<std::string, std::string> config = read_config(path);
    options.data = config["data"];
    options.val_fraction = number_in<double>(config["val-fraction"]).value_or(options.val_fraction);
    seed = number_in<int64_t>(config["seed"]).value_or(seed);
  } else {
    check(!data.empty(), "--data is missing, and there is no ", path, " that says what it was");
  }
  if (!data.empty()) options.data = data;
  return load_images(options, uint64_t(seed));
}

data::Statistics pixel_statistics(const std::string& data, int64_t channels) {
  data::Statistics statistics = data.starts_with("fashion-mnist") ? data::fashion_mnist_statistics()
                                : data.starts_with("cifar10")     ? data::cifar10_statistics()
                                                                  : data::imagenet_statistics();
  for (std::vector<double>* numbers : {&statistics.mean, &statistics.deviation}) {
    double mean = std::accumulate(numbers->begin(), numbers->end(), 0.0) / double(numbers->size());
    if (int64_t(numbers->size()) != channels) numbers->assign(size_t(channels), mean);
  }
  return statistics;
}

std::string data_record(const ImageData& images) {
  std::string text = "# What the run learns from: images, and the CRC-32C of their names and classes.\n";
  for (const auto& [key, value] : values_of(images))
    text += key + " = " + (key.ends_with("crc32c") ? '"' + value + '"' : value) + "\n";
  return text;
}

bool has_data_record(const std::string& run_folder) { return io::exists(path_of_record(run_folder)); }

std::string difference_of_data(const std::string& run_folder, const ImageData& images) {
  std::map<std::string, std::string> own = read_config(path_of_record(run_folder)), now = values_of(images);
  std::string text;
  for (std::string part : {"train", "validation"}) {
    std::string count = part + "-images", crc = part + "-crc32c";
    if (own[count] == now[count] && own[crc] == now[crc]) continue;
    text +=
        fmt::format("{}{} images {} with checksum {}, now {} with {}", text.empty() ? "" : "; ", own[count],
                    part == "train" ? "to train on" : "held out", own[crc], now[count], now[crc]);
  }
  return text;
}

}  // namespace reprise::apps
