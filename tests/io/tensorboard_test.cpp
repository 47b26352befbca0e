// Event files, taken apart again byte by byte.
#include "reprise/io/tensorboard.h"

#include <gtest/gtest.h>

#include <cerrno>

#include <cstring>
#include <vector>

#include "reprise/io/crc32c.h"
#include "reprise/io/file_calls.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using testing::TempFolder;

template <class T>
T value_at(const std::string& bytes, size_t position) {
  T value;
  std::memcpy(&value, bytes.data() + position, sizeof(T));
  return value;
}

// The records of a TFRecord file, with both checksums of each checked.
std::vector<std::string> records_of(const std::string& path) {
  std::string bytes = read_file(path);
  std::vector<std::string> records;
  size_t position = 0;
  while (position < bytes.size()) {
    auto length = value_at<uint64_t>(bytes, position);
    EXPECT_EQ(value_at<uint32_t>(bytes, position + 8), masked_crc32c(bytes.substr(position, 8)));
    records.push_back(bytes.substr(position + 12, length));
    EXPECT_EQ(value_at<uint32_t>(bytes, position + 12 + length), masked_crc32c(records.back()));
    position += 16 + length;
  }
  EXPECT_EQ(position, bytes.size());
  return records;
}

TEST(TensorBoard, BeginsWithTheFileVersion) {
  TempFolder folder;
  TensorBoardWriter writer(folder.path());
  EXPECT_EQ(std::filesystem::path(writer.path()).filename().string().rfind("events.out.tfevents.", 0), 0u);
  std::vector<std::string> records = records_of(writer.path());
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0][0], 0x09);  // field 1, a double: wall_time
  EXPECT_GT(value_at<double>(records[0], 1), 1.6e9);
  EXPECT_EQ(records[0].substr(9), std::string("\x10\x00\x1a\x0d", 4) + "brain.Event:2");
}

TEST(TensorBoard, WritesAScalarByteForByte) {
  TempFolder folder;
  TensorBoardWriter writer(folder.path());
  writer.scalar("loss", 300, 1.5, 2.0);
  writer.close();
  std::vector<std::string> records = records_of(writer.path());
  ASSERT_EQ(records.size(), 2u);
  std::string wanted(
      "\x09\0\0\0\0\0\0\0\x40"  // 1: wall_time 2.0
      "\x10\xac\x02"            // 2: step 300
      "\x2a\x0d"                // 5: summary of 13 bytes
      "\x0a\x0b"                // 1: value of 11 bytes
      "\x0a\x04loss"            // 1: tag
      "\x15\x00\x00\xc0\x3f",   // 2: simple_value 1.5
      27);
  EXPECT_EQ(records[1], wanted);
}

TEST(TensorBoard, ResumingPurgesLaterSteps) {
  TempFolder folder;
  TensorBoardWriter first(folder.path()), second(folder.path(), 100);
  EXPECT_NE(first.path(), second.path());
  std::vector<std::string> records = records_of(second.path());
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1].substr(9), "\x10\x65\x3a\x02\x08\x01");  // step 101, session_log {status: START}
}

// TensorBoard reads files by name: two runs within a second, or a clock that was put back, change no order.
TEST(TensorBoard, ALaterFileHasALaterName) {
  TempFolder folder;
  std::string last = folder.write("events.out.tfevents.4000000000.host.1.0", "");
  folder.write("events.out.tfevents.", "");
  folder.write("events.out.tfevents.99999999999999999999.x", "");
  for (int i = 0; i < 3; ++i) {
    TensorBoardWriter writer(folder.path());
    EXPECT_LT(last, writer.path());
    last = writer.path();
  }
}

// No write works: the disk is full.
struct NoWrite : FileCalls {
  ssize_t write(int, const void*, size_t) override {
    errno = ENOSPC;
    return -1;
  }
};

TEST(TensorBoard, AFileThatCannotBeBegunIsNotLeftEmpty) {
  TempFolder folder;
  NoWrite calls;
  FileCallsScope scope(calls);
  testing::expect_error([&] { TensorBoardWriter writer(folder.path()); }, "errno 28");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TensorBoard, NamesAFolderThatIsMissing) {
  TempFolder folder;
  testing::expect_error([&] { TensorBoardWriter writer(folder / "absent"); }, folder / "absent");
}

}  // namespace
}  // namespace reprise::io
