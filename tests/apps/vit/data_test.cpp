// pack and show: what they write is what training reads and sees.
// labels: end-to-end
#include "reprise/data/datasets/idx_dataset.h"
#include "reprise/data/datasets/subset.h"
#include "reprise/data/loader.h"
#include "reprise/data/recipes.h"
#include "reprise/io/images/decode.h"
#include "reprise/io/images/png.h"
#include "reprise/tests/apps/vit/program.h"

namespace reprise::apps {
namespace {

using namespace testing;
namespace fs = std::filesystem;

TEST(VitPack, ShardsTrainToTheBitsOfTheirImages) {
  TempFolder folder;
  const std::string data = tiny_images(folder), shards = folder / "shards";
  const std::string printed = run_vit({"pack", "--data", data, "--out", shards, "--png"});
  EXPECT_NE(printed.find("/train: 90 images in 1 shard, "), std::string::npos) << printed;
  EXPECT_NE(printed.find("/test: 30 images in 1 shard, "), std::string::npos) << printed;
  EXPECT_FALSE(fs::exists(shards + ".unfinished"));
  const std::string plain = run_vit(vit_arguments(data, folder / "plain", 4)),
                    packed = run_vit(vit_arguments(shards, folder / "packed", 4));
  expect_same_checkpoints(folder / "packed", folder / "plain");
  EXPECT_EQ(packed.substr(packed.find("Test: "), 30), plain.substr(plain.find("Test: "), 30));
}

TEST(VitPack, OtherToolsReadItsNames) {
  const std::string python = "/usr/bin/python3";
  if (!fs::exists(python)) GTEST_SKIP() << "there is no " << python;
  TempFolder folder;
  const std::string shards = folder / "shards";
  run_vit({"pack", "--data", tiny_images(folder, 2, 2), "--out", shards});
  const std::string script =
      "import tarfile\n"
      "tar = tarfile.open('" +
      shards +
      "/train/shard-00000.tar')\n"
      "print(' '.join(tar.getnames()), tar.extractfile('000000001.jpg').read(2).hex())\n";
  Program program({"-c", script}, "", python.c_str());
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_EQ(program.out(), "000000000.jpg 000000000.cls 000000001.jpg 000000001.cls ffd8\n");
}

TEST(VitPack, LeavesNothingThatIsNotWhole) {
  TempFolder folder;
  const std::string photos = folder / "photos", shards = folder / "shards";
  folder.write("photos/a/1.png", "no image");
  folder.write("photos/b/1.png", "no image");
  expect_vit_refused({"pack", "--data", photos, "--out", shards}, {"photos/a/1.png", "image 0"});
  EXPECT_FALSE(fs::exists(shards) || fs::exists(shards + ".unfinished"));
  expect_vit_refused({"pack", "--data", photos, "--out", photos}, {"--out", "is there already"});
}

// Large images for a tiny model. Their noise makes them slow to decode, by a library that no sanitizer slows down: they are
// large enough for a step that one makes ten times slower.
TEST(VitData, SaysThatTrainingWaitsForImages) {
  TempFolder folder;
  io::Image noise;
  noise.resize(1000, 1000, 1);
  for (size_t i = 0; i < noise.pixels.size(); ++i) noise.pixels[i] = uint8_t(philox_block(1, 1, i)[0]);
  for (int i = 0; i < 12; ++i)
    folder.write("photos/" + std::to_string(i % 2) + "/" + std::to_string(i) + ".png", io::encode_png(noise));
  Program slow(vit_arguments(folder / "photos", folder / "slow", 22, {"--val-fraction", "0.2"}), "",
               vit_program());
  EXPECT_EQ(slow.wait(), 0) << slow.err();
  const std::string line = slow.err();
  EXPECT_TRUE(line.starts_with("warning: waiting for images takes ")) << line;
  EXPECT_NE(line.find("more --workers help, and smaller images: reprise-vit pack\n"), std::string::npos)
      << line;
  EXPECT_EQ(line.find("waiting", 20), std::string::npos) << "told twice: " << line;
}

// Images of a megabyte, whose packing takes longer than the signal to come.
TEST(VitPack, IsUndoneByASignal) {
  TempFolder folder;
  io::Image noise;
  noise.resize(1000, 1000, 1);
  for (size_t i = 0; i < noise.pixels.size(); ++i) noise.pixels[i] = uint8_t(philox_block(1, 1, i)[0]);
  const std::string png = io::encode_png(noise), shards = folder / "shards";
  for (int i = 0; i < 130; ++i)  // more than twice as many as are encoded at once
    folder.write("photos/" + std::to_string(i % 2) + "/" + std::to_string(i) + ".png", png);
  Program program({"pack", "--data", folder / "photos", "--out", shards}, "", vit_program());
  while (program.is_running() && !fs::exists(shards + ".unfinished/train")) std::this_thread::yield();
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(), 3) << program.err();
  EXPECT_FALSE(fs::exists(shards) || fs::exists(shards + ".unfinished"));
}

std::string bytes_of_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t group = 0;
  int bits = 0;
  for (char c : text) {
    if (c == '=') break;
    group = group << 6 | uint32_t(digits.find(c));
    if ((bits += 6) < 8) continue;
    bytes += char(group >> (bits -= 8));
  }
  return bytes;
}

// The pictures of a page, in its order.
std::vector<io::Image> pictures_in(const std::string& page) {
  const std::string mark = "data:image/png;base64,";
  std::vector<io::Image> pictures;
  for (size_t at = page.find(mark); at != std::string::npos; at = page.find(mark, at + 1)) {
    const size_t begin = at + mark.size();
    io::decode_image(bytes_of_base64(page.substr(begin, page.find('"', begin) - begin)), "picture",
                     {.channels = 1}, pictures.emplace_back());
  }
  return pictures;
}

// The row of the batch, from which the pixels are counted back; and the sample's way through the pipeline alone.
TEST(VitShow, PicturesAreTheLoadersRows) {
  TempFolder folder;
  const std::string data = tiny_images(folder), out = folder / "page";
  auto all = std::make_shared<data::PixelDataset>(
      data::idx_dataset(folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte"));
  const data::Subset train = data::hold_out(all, 0.1, 5).first;
  const data::Pipeline pipeline = data::fashion_train({.image = 8, .statistics = {{0.5}, {0.25}}});
  data::TransformScratch scratch;
  int flipped = 0;
  for (int64_t index : {0, 4, 33}) {
    const std::string printed =
        run_vit({"show", "--data", data, "--image", "8", "--seed", "5", "--batch", "6", "--index",
                 std::to_string(index), "--epoch", "2", "--out", out});
    EXPECT_EQ(printed.find("Pipeline: resize 8 bicubic, center_crop 8, flip 0.5, normalize"), 0u) << printed;
    const std::vector<io::Image> pictures = pictures_in(bytes_of_file(out + "/samples.html"));
    ASSERT_EQ(pictures.size(), 2u);
    std::vector<uint8_t> row(64);
    const data::Order::Sample sample{.epoch = 2, .index = index, .key = uint64_t(2 * train.size() + index)};
    pipeline.read(train, sample, 5, row, scratch);
    EXPECT_EQ(pictures[1].pixels, row) << index;
    flipped += pictures[1].pixels != pictures[0].pixels;
  }
  EXPECT_GT(flipped, 0);
  EXPECT_LT(flipped, 3);
}

// Crops, colours, erasing and mixing, at the place that the run's batch has it.
TEST(VitShow, TakesTheOptionsOfARun) {
  TempFolder folder;
  const std::string data = tiny_images(folder), run = folder / "run", out = folder / "page";
  run_vit(vit_arguments(data, run, 1,
                        {"--recipe", "deit", "--channels", "1", "--stem", "patch", "--seed", "7",
                         "--accumulate", "2", "--repeats", "2"}));
  auto all = std::make_shared<data::PixelDataset>(
      data::idx_dataset(folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte"));
  const data::Subset train = data::hold_out(all, 0.1, 7).first;
  data::Statistics statistics{{0.0}, {0.0}};  // ImageNet's, in gray
  for (size_t c = 0; c < 3; ++c) {
    statistics.mean[0] += data::imagenet_statistics().mean[c] / 3;
    statistics.deviation[0] += data::imagenet_statistics().deviation[c] / 3;
  }
  const data::Pipeline pipeline = data::deit_train({.image = 8, .statistics = statistics});
  data::ImageLoader loader(train, pipeline, {.batch = 6, .accumulate = 2, .seed = 7, .repeats = 2});
  run_vit({"show", "--run", run, "--out", out});
  const std::vector<io::Image> pictures = pictures_in(bytes_of_file(out + "/samples.html"));
  ASSERT_EQ(pictures.size(), 24u);
  for (int64_t i = 0; i < 12; ++i) {
    const std::vector<float> row =
        loader.batch(0, i / 6).images.slice(0, i % 6, i % 6 + 1).to_vector<float>();
    for (size_t p = 0; p < 64; ++p) {
      double value = (double(row[p]) * statistics.deviation[0] + statistics.mean[0]) * 255;
      ASSERT_NEAR(pictures[size_t(2 * i + 1)].pixels[p], std::clamp(value, 0.0, 255.0), 0.501)
          << i << ' ' << p;
    }
  }
  expect_vit_refused({"show", "--run", folder / "nothing"}, {"--run", folder / "nothing" + "/config.toml"});
  expect_vit_refused({"show", "--run", run, "--index", "4000"}, {"--index 4000", "images to train on"});
}

}  // namespace
}  // namespace reprise::apps
