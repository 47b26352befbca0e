// A program may choose its locale: what is written is the same under each, and read under each.
#include <gtest/gtest.h>

#include <cmath>

#include "reprise/io/json.h"
#include "reprise/io/run_log.h"
#include "reprise/io/safetensors.h"
#include "reprise/io/tensorboard.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/locale.h"

namespace reprise::io {
namespace {

class Locale : public ::testing::Test {
 protected:
  reprise::testing::TempFolder folder_;
};

TEST_F(Locale, ChangesNoByteOfSafetensors) {
  Tensor wide = Tensor::from(std::vector<double>(12345, 0.5), {12345}), rows = Tensor::zeros({3000, 2});
  auto write = [&] {
    write_safetensors(folder_ / "x", {{"wide", wide}, {"rows", rows}}, {{"step", "1234567"}});
    return read_file(folder_ / "x");
  };
  auto [plain, grouped] = reprise::testing::under_both_locales(write);
  EXPECT_TRUE(plain == grouped);
  reprise::testing::CommaLocale scope;
  SafetensorsFile file(folder_ / "x");
  EXPECT_EQ(file.read("wide").to_vector<double>(), wide.to_vector<double>());
  EXPECT_EQ(file.read("rows").shape(), (Shape{3000, 2}));
  EXPECT_EQ(file.metadata().at("step"), "1234567");
}

TEST_F(Locale, ChangesNoByteOfTheRunLog) {
  auto write = [&] {
    std::filesystem::remove(std::string(folder_ / "log"));
    RunLog log(folder_ / "log");
    for (int64_t step : {1000, 200000, 3000000})
      log.write(step, {{"loss", 1234.5 / double(step)}, {"val_loss", 0.1}, {"tokens", 1e6}});
    log.close();
    double sum = 0;
    for (const RunRecord& record : read_run_log(folder_ / "log")) sum += record.metrics.front().second;
    EXPECT_DOUBLE_EQ(sum, 1.2345 + 0.0061725 + 0.0004115);
    return read_file(folder_ / "log");
  };
  auto [plain, grouped] = reprise::testing::under_both_locales(write);
  EXPECT_EQ(plain, grouped);
}

TEST_F(Locale, ChangesNoByteOfEvents) {
  auto write = [&] {
    TensorBoardWriter writer(folder_.path());
    size_t header = read_file(writer.path()).size();  // with the time of day
    writer.scalar("loss", 1234567, 0.125, 1e9);
    writer.close();
    return read_file(writer.path()).substr(header);
  };
  auto [plain, grouped] = reprise::testing::under_both_locales(write);
  EXPECT_EQ(plain, grouped);
  EXPECT_FALSE(plain.empty());
}

TEST_F(Locale, ChangesNoNumberInJson) {
  for (double value : {0.1, 1234567.5, -1e300, 5e-324}) {
    auto [plain, grouped] = reprise::testing::under_both_locales([&] { return json_number(value); });
    EXPECT_EQ(plain, grouped);
    reprise::testing::CommaLocale scope;
    JsonReader json(plain, "test");
    EXPECT_EQ(json.number(), value);
  }
}

}  // namespace
}  // namespace reprise::io
