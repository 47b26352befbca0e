// Images per second through the loader: the worker that benchmarks/bench_loader.py drives against torchvision.
//
//   loader_bench --data FOLDER [--fast] [--images N]   photographs, a folder per class: decode, crop 224, flip, normalise;
//                                                      with --fast as --decode fast does
//   loader_bench --fashion [--images N]                Fashion-MNIST, by one worker
//
// Photographs are read in the caller alone. Warms up, then for each line "run" on standard input reads N images and
// prints one JSON object. Ends with the input.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "reprise/core/parallel.h"
#include "reprise/data/datasets/idx_dataset.h"
#include "reprise/data/datasets/image_folder.h"
#include "reprise/data/loader.h"
#include "reprise/data/recipes.h"
#include "reprise/data/transforms/flip.h"
#include "reprise/data/transforms/random_crop.h"

namespace data = reprise::data;

int main(int argc, char** argv) {
  std::string folder;
  bool fashion = false, fast = false;
  int64_t images = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--fashion") {
      fashion = true;
    } else if (option == "--fast") {
      fast = true;
    } else if (option == "--data" && i + 1 < argc) {
      folder = argv[++i];
    } else if (option == "--images" && i + 1 < argc) {
      images = std::atoll(argv[++i]);
    }
  }
  if (fashion == !folder.empty()) {
    std::puts(
        "loader_bench --data FOLDER [--fast] | --fashion [--images N]\nReads lines \"run\" and prints one "
        "JSON object "
        "for each.");
    return 2;
  }
  reprise::set_num_threads(1);
  std::unique_ptr<data::Dataset> dataset;
  data::Pipeline pipeline = data::fashion_train();
  data::LoaderOptions options{.batch = 128, .seed = 1, .workers = 1, .prefetch = 4};
  if (fashion) {
    dataset = std::make_unique<data::PixelDataset>(data::fashion_mnist(data::Split::train));
  } else {
    dataset = std::make_unique<data::ImageFolder>(folder);
    pipeline = data::Pipeline({.decoding = fast ? data::Decoding::fast : data::Decoding::exact});
    pipeline.add(data::RandomResizedCrop({})).add(data::RandomFlip());
    options = {.batch = 16, .seed = 1, .workers = 0};
  }
  if (images == 0) images = fashion ? 60000 : 400;
  data::ImageLoader loader(*dataset, pipeline, options);
  int64_t step = 0;
  auto read = [&](int64_t count) {
    for (int64_t done = 0; done < count; done += options.batch) loader.batch(step++);
  };
  read(images / 4);
  for (std::string line; std::getline(std::cin, line);) {
    const auto begin = std::chrono::steady_clock::now();
    read(images);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    const double read_images = double((images + options.batch - 1) / options.batch * options.batch);
    std::printf("{\"images_per_second\": %.1f}\n", read_images / taken.count());
    std::fflush(stdout);
  }
}
