// metrics.jsonl: exact lines, resuming, and damage.
#include "reprise/io/run_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using testing::expect_error;
using testing::TempFolder;

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

TEST(RunLog, WritesOneObjectALine) {
  TempFolder folder;
  RunLog log(folder / "metrics.jsonl");
  log.write(1, {{"loss", 2.5}, {"lr", 1e-3}});
  EXPECT_EQ(read_file(folder / "metrics.jsonl"), "{\"step\":1,\"loss\":2.5,\"lr\":0.001}\n");  // at once
  log.write(2, {{"loss", nan_value}, {"a\"b", std::numeric_limits<double>::infinity()}});
  log.close();
  EXPECT_EQ(read_file(folder / "metrics.jsonl"),
            "{\"step\":1,\"loss\":2.5,\"lr\":0.001}\n{\"step\":2,\"loss\":null,\"a\\\"b\":null}\n");
}

TEST(RunLog, ReadsBackWhatItWrote) {
  TempFolder folder;
  RunLog log(folder / "m");
  log.write(7, {{"loss", 1.0 / 3}, {"gone", nan_value}});
  log.write(-1, {});
  std::vector<RunRecord> records = read_run_log(folder / "m");
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].step, 7);
  ASSERT_EQ(records[0].metrics.size(), 2u);
  EXPECT_EQ(records[0].metrics[0], (std::pair<std::string, double>("loss", 1.0 / 3)));
  EXPECT_TRUE(std::isnan(records[0].metrics[1].second));
  EXPECT_EQ(records[1].step, -1);
}

TEST(RunLog, ANewLogLeavesAnOldOneAlone) {
  TempFolder folder;
  std::string path = folder.write("m", "old");
  expect_error([&] { RunLog log(path); }, path, "exists");
  EXPECT_EQ(read_file(path), "old");
}

TEST(RunLog, ResumingDropsLaterRecordsAndACutLine) {
  TempFolder folder;
  std::string path =
      folder.write("m",
                   "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2}\n{\"step\":2,\"val_loss\":2}\n"
                   "{\"step\":3,\"loss\":1}\n{\"step\":4,\"lo");
  RunLog log = RunLog::resume(path, 2);
  log.write(3, {{"loss", 1.5}});
  log.close();
  EXPECT_EQ(read_file(path),
            "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2}\n{\"step\":2,\"val_loss\":2}\n"
            "{\"step\":3,\"loss\":1.5}\n");
}

TEST(RunLog, ResumingBeginsAMissingLog) {
  TempFolder folder;
  RunLog::resume(folder / "m", 5).write(6, {});
  EXPECT_EQ(read_file(folder / "m"), "{\"step\":6}\n");
}

TEST(RunLog, SkipsWhatIsNoNumber) {
  TempFolder folder;
  std::string path = folder.write("m", "\n{\"note\":\"x\",\"step\":3,\"a\":[1],\"loss\":2,\"ok\":true}\n");
  std::vector<RunRecord> records = read_run_log(path);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].step, 3);
  EXPECT_EQ(records[0].metrics, (std::vector<std::pair<std::string, double>>{{"loss", 2.0}}));
}

TEST(RunLog, NamesADamagedLineAndLeavesTheFileAlone) {
  TempFolder folder;
  std::string damaged = "{\"step\":1}\n{\"step\":x}\n{\"step\":3}\n";
  std::string path = folder.write("m", damaged);
  expect_error([&] { read_run_log(path); }, path, "byte 19");
  expect_error([&] { RunLog::resume(path, 1); }, path, "byte 19");
  EXPECT_EQ(read_file(path), damaged);
  expect_error([&] { read_run_log(folder.write("n", "{\"loss\":1}\n")); }, "no step");
  expect_error([&] { read_run_log(folder / "absent"); }, "absent");
}

}  // namespace
}  // namespace reprise::io
