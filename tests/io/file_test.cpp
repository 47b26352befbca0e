// Files: whole reads, positioned reads, and messages that name the path and the reason.
#include "reprise/io/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "reprise/io/file_calls.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using testing::expect_error;
using testing::TempFolder;

// Moves at most three bytes a call and is interrupted before every second one.
class ChoppyCalls : public FileCalls {
 public:
  ssize_t write(int descriptor, const void* data, size_t bytes) override {
    if (interrupted()) return -1;
    return FileCalls::write(descriptor, data, std::min<size_t>(bytes, 3));
  }
  ssize_t pread(int descriptor, void* data, size_t bytes, off_t offset) override {
    if (interrupted()) return -1;
    return FileCalls::pread(descriptor, data, std::min<size_t>(bytes, 3), offset);
  }

 private:
  bool interrupted() {
    errno = EINTR;
    return ++calls_ % 2 == 1;
  }
  int calls_ = 0;
};

TEST(File, ReadsWholeAndByPosition) {
  TempFolder folder;
  std::string contents("a\0b\nc", 5);
  std::string path = folder.write("data", contents);
  EXPECT_EQ(read_file(path), contents);
  File file = File::open(path);
  EXPECT_EQ(file.size(), 5u);
  char two[2];
  file.read_at(3, two, 2);
  EXPECT_EQ(std::string(two, 2), "\nc");
}

TEST(File, ReadPastTheEndSaysWhereItEnds) {
  TempFolder folder;
  File file = File::open(folder.write("short", "12345"));
  char out[4];
  expect_error([&] { file.read_at(3, out, 4); }, "short", "ends at byte 5", "2 bytes early");
  expect_error([&] { file.read_at(UINT64_MAX, out, 4); }, "short", "out of range");
}

TEST(File, RefusesWhatIsNotARegularFile) {
  TempFolder folder;
  expect_error([&] { File::open(folder / "absent"); }, folder / "absent", "No such file");
  expect_error([&] { File::open(folder.path()); }, folder.path(), "is a folder");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_error([&] { File::open(folder / "pipe"); }, "pipe", "not a regular file");  // and does not wait
  expect_error([&] { File::open("/dev/zero"); }, "/dev/zero", "not a regular file");
}

TEST(File, CreateRefusesToOverwrite) {
  TempFolder folder;
  std::string path = folder.write("kept", "old");
  expect_error([&] { File::create(path); }, path, "exists");
  EXPECT_EQ(read_file(path), "old");
}

TEST(File, AppendsAtTheEnd) {
  TempFolder folder;
  std::string path = folder.write("log", "one");
  File file = File::append(path);
  file.write(" two");
  file.close();
  EXPECT_EQ(read_file(path), "one two");
}

TEST(File, FinishesThroughShortAndInterruptedCalls) {
  TempFolder folder;
  ChoppyCalls calls;
  FileCallsScope scope(calls);
  File file = File::create(folder / "data");
  file.write("0123456789");
  file.close();
  EXPECT_EQ(read_file(folder / "data"), "0123456789");
}

TEST(File, UseAfterCloseIsAnError) {
  TempFolder folder;
  File file = File::create(folder / "data");
  file.close();
  expect_error([&] { file.write("x"); }, "data", "closed");
  expect_error([&] { file.close(); }, "data", "closed");
}

TEST(File, ADiskThatIsFullSaysSo) {
  class FullDisk : public FileCalls {
    ssize_t write(int, const void*, size_t) override { return errno = ENOSPC, -1; }
  } calls;
  TempFolder folder;
  FileCallsScope scope(calls);
  File file = File::create(folder / "data");
  expect_error([&] { file.write("x"); }, folder / "data", std::strerror(ENOSPC));
}

TEST(File, ParentFolders) {
  EXPECT_EQ(parent_folder("name"), ".");
  EXPECT_EQ(parent_folder("/name"), "/");
  EXPECT_EQ(parent_folder("a/b/name"), "a/b");
}

}  // namespace
}  // namespace reprise::io
