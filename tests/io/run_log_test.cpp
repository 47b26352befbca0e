// metrics.jsonl: exact lines, resuming, and damage.
#include "reprise/io/run_log.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <limits>

#include "reprise/io/file_calls.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using testing::expect_error;
using testing::TempFolder;

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

std::vector<RunRecord> records_of(const std::string& path, int64_t unreadable = 0) {
  RunLogReader log(path);
  std::vector<RunRecord> records;
  for (const RunRecord& record : log) records.push_back(record);
  EXPECT_EQ(log.unreadable(), unreadable) << path;
  return records;
}

std::vector<int64_t> steps_of(const std::string& path, int64_t unreadable = 0) {
  std::vector<int64_t> steps;
  for (const RunRecord& record : records_of(path, unreadable)) steps.push_back(record.step);
  return steps;
}

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
  std::vector<RunRecord> records = records_of(folder / "m");
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
  std::vector<RunRecord> records = records_of(path);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].step, 3);
  EXPECT_EQ(records[0].metrics, (std::vector<std::pair<std::string, double>>{{"loss", 2.0}}));
}

TEST(RunLog, SkipsAndCountsLinesThatAreDamaged) {
  TempFolder folder;
  std::string nothing(64, '\0');
  for (const std::string& damage :
       {nothing, std::string("{\"step\":x}"), std::string("{\"loss\":1}"),
        std::string("\xff\xfe{\"step\":9}"), std::string("GPT: 1 layers"), nothing + "{\"step\":9}",
        std::string("{\"step\":2,\"lo"), std::string("[1]"), std::string(16384, 'x'),
        std::string(100000, '{'), "{\"step\":" + std::string(40000, ' ') + "9}"}) {
    std::string path = folder.write("m", "{\"step\":1}\n" + damage + "\n{\"step\":3}\n{\"step\":4}\n");
    EXPECT_EQ(steps_of(path, 1), (std::vector<int64_t>{1, 3, 4})) << damage.substr(0, 20);
    // Going on keeps what it cannot read: it may be another program's.
    RunLog log = RunLog::resume(path, 3);
    EXPECT_EQ(log.unreadable(), 1);
    log.write(4, {});
    log.close();
    EXPECT_EQ(read_file(path), "{\"step\":1}\n" + damage + "\n{\"step\":3}\n{\"step\":4}\n");
  }
  expect_error([&] { read_run_log(folder / "absent"); }, "absent");
  expect_error([&] { read_run_log(folder.path()); }, "is a folder");
}

TEST(RunLog, AnEndThatWasCutIsDroppedOrClosedBeforeTheLogGoesOn) {
  TempFolder folder;
  for (size_t bytes : {1, 64, 16383, 16384, 16385, 32768, 50000}) {
    std::string path = folder.write("m", "{\"step\":1}\n" + std::string(bytes, '\0'));
    RunLog::resume(path, 1).write(2, {});
    EXPECT_EQ(steps_of(path, bytes < 16384 ? 0 : 1), (std::vector<int64_t>{1, 2})) << bytes;
  }
}

TEST(RunLog, LinesOfEveryLengthAreReadWhereverTheBufferEnds) {
  TempFolder folder;
  std::string text;
  std::vector<int64_t> want;
  for (int64_t step = 0; step < 400; ++step) {
    want.push_back(step);
    text += "{\"step\":" + std::to_string(step) + ",\"note\":\"" + std::string(size_t(step * 37 % 401), 'x') +
            "\"}\n";
  }
  EXPECT_EQ(steps_of(folder.write("m", text)), want);
  EXPECT_EQ(steps_of(folder.write("m", std::string(40000, '\n') + text)), want)
      << "blank lines are no damage";
  std::string longest = "{\"step\":7}";
  longest += std::string(16383 - longest.size(), ' ') + "\n";
  EXPECT_EQ(steps_of(folder.write("m", longest + longest)), (std::vector<int64_t>{7, 7}));
}

// Takes the first `room` bytes, then has none.
class SmallDisk : public FileCalls {
 public:
  explicit SmallDisk(size_t room) : room_(room) {}
  ssize_t write(int descriptor, const void* data, size_t bytes) override {
    bytes = std::min(bytes, room_);
    if (bytes == 0) return errno = ENOSPC, -1;
    room_ -= bytes;
    return FileCalls::write(descriptor, data, bytes);
  }

 private:
  size_t room_;
};

TEST(RunLog, AFullDiskLeavesWholeRecordsOnly) {
  TempFolder folder;
  for (size_t room = 0; room < 11; ++room) {
    std::string path = folder / ("m" + std::to_string(room));
    RunLog log(path);
    log.write(1, {});
    SmallDisk disk(room);
    {
      FileCallsScope scope(disk);
      expect_error([&] { log.write(2, {}); }, path, "No space");
    }
    log.write(3, {});  // there is room again
    EXPECT_EQ(read_file(path), "{\"step\":1}\n{\"step\":3}\n");
  }
}

}  // namespace
}  // namespace reprise::io
