// Runs the built reprise-vit as its users do, on tiny images.
#pragma once

#include "reprise/tests/apps/gpt/program.h"

namespace reprise::testing {

/// An IDX file: u8 numbers of these sizes.
inline std::string idx_file(const std::vector<int64_t>& sizes, const std::string& numbers) {
  std::string bytes = {0, 0, 8, char(sizes.size())};
  for (int64_t size : sizes)
    for (int shift : {24, 16, 8, 0}) bytes += char(size >> shift);
  return bytes + numbers;
}

/// Gray images of 8 x 8 pixels in three classes: a bright column, a bright row, noise alone. Writes the four IDX files of a
/// data set into `folder` and returns what --data calls it.
inline std::string tiny_images(const TempFolder& folder, int64_t train = 90, int64_t test = 30) {
  uint64_t at = 0;
  for (auto [part, count] : {std::pair{"train", train}, std::pair{"t10k", test}}) {
    std::string pixels, labels;
    for (int64_t i = 0; i < count; ++i) {
      auto bits = philox_block(3, 1, at++);
      uint32_t label = bits[0] % 3, line = bits[1] % 8;
      labels += char(label);
      for (uint32_t y = 0; y < 8; ++y)
        for (uint32_t x = 0; x < 8; ++x) {
          bool bright = (label == 0 && x == line) || (label == 1 && y == line);
          pixels += char(philox_block(3, 2, at++)[0] % 100 + (bright ? 150 : 0));
        }
    }
    folder.write(std::string(part) + "-images-idx3-ubyte", idx_file({count, 8, 8}, pixels));
    folder.write(std::string(part) + "-labels-idx1-ubyte", idx_file({count}, labels));
  }
  return "idx:" + (folder / "");
}

/// `train` of a tiny model for `steps` steps into `out`, on one thread; what `more` gives replaces the defaults.
inline Arguments vit_arguments(const std::string& data, const std::string& out, int steps,
                               const Arguments& more = {}) {
  const std::vector<std::pair<std::string, std::string>> defaults = {
      {"--image", "8"}, {"--patch", "2"},  {"--width", "16"},     {"--layers", "1"},     {"--heads", "2"},
      {"--batch", "6"}, {"--warmup", "2"}, {"--eval-every", "3"}, {"--save-every", "0"}, {"--threads", "1"}};
  Arguments all = {"train", "--data", data, "--out", out, "--steps", std::to_string(steps)};
  for (const auto& [option, value] : defaults)
    if (std::find(more.begin(), more.end(), option) == more.end()) all.insert(all.end(), {option, value});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// As `vit_arguments`, of a narrow ResNet by the recipe resnet-cifar.
inline Arguments resnet_arguments(const std::string& data, const std::string& out, int steps,
                                  const Arguments& more = {}) {
  const std::vector<std::pair<std::string, std::string>> defaults = {
      {"--model", "resnet18"}, {"--recipe", "resnet-cifar"},
      {"--channels", "1"},     {"--image", "8"},
      {"--width", "4"},        {"--batch", "6"},
      {"--eval-every", "3"},   {"--save-every", "0"},
      {"--threads", "1"}};
  Arguments all = {"train", "--data", data, "--out", out, "--steps", std::to_string(steps)};
  for (const auto& [option, value] : defaults)
    if (std::find(more.begin(), more.end(), option) == more.end()) all.insert(all.end(), {option, value});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

inline std::string run_vit(const Arguments& arguments, int code = 0) {
  Program program(arguments, "", vit_program());
  EXPECT_EQ(program.wait(), code) << program.err();
  return program.out();
}

/// Expects exit code 2 and a message on standard error that holds each of `parts`; what does not fit of a model is told in
/// a line each.
inline void expect_vit_refused(const Arguments& arguments, const std::vector<std::string>& parts) {
  Program program(arguments, "", vit_program());
  EXPECT_EQ(program.wait(), 2) << program.out() << program.err();
  std::string line = program.err();
  EXPECT_TRUE(line.starts_with("reprise-vit: ")) << line;
  for (const std::string& part : parts)
    EXPECT_NE(line.find(part), std::string::npos) << line << "lacks: " << part;
}

}  // namespace reprise::testing
