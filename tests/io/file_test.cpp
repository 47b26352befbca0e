// Files: whole reads, positioned reads, and messages that name the path and the reason.
#include "reprise/io/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "reprise/io/file_calls.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using testing::expect_error;
using testing::TempFolder;

// Moves at most three bytes per call and is interrupted before every second one.
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
  int open(const char* path, int flags, mode_t mode) override {
    return interrupted() ? -1 : FileCalls::open(path, flags, mode);
  }
  int fsync(int descriptor) override { return interrupted() ? -1 : FileCalls::fsync(descriptor); }

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
  file.sync();
  file.close();
  EXPECT_EQ(read_file(folder / "data"), "0123456789");
  EXPECT_NO_THROW(sync_folder(folder.path()));
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

// Writes down which folders are made and synced, and can fail one of the calls.
class FolderCalls : public FileCalls {
 public:
  int doomed = -1;
  std::vector<std::string> seen;

  int mkdir(const char* path, mode_t mode) override {
    return note("make ", path) ? FileCalls::mkdir(path, mode) : -1;
  }
  int open(const char* path, int flags, mode_t mode) override {
    last_ = path;
    return FileCalls::open(path, flags, mode);
  }
  int fsync(int descriptor) override { return note("sync ", last_) ? FileCalls::fsync(descriptor) : -1; }
  int close(int descriptor) override {
    int result = FileCalls::close(descriptor);
    return note("close ", last_) ? result : -1;
  }

 private:
  bool note(const std::string& what, const std::string& path) {
    seen.push_back(what + path);
    errno = EIO;
    return int(seen.size()) - 1 != doomed;
  }
  std::string last_;
};

TEST(File, NewFoldersAreDurableInTheirParentsBeforeTheNextIsMade) {
  TempFolder folder;
  FolderCalls calls;
  FileCallsScope scope(calls);
  make_folders_durable(folder / "a/b/");
  std::string a = folder / "a";
  EXPECT_EQ(calls.seen,
            (std::vector<std::string>{"make " + a, "sync " + folder.path(), "close " + folder.path(),
                                      "make " + a + "/b", "sync " + a, "close " + a}));
  calls.seen.clear();
  make_folders_durable(folder / "a/b");
  EXPECT_TRUE(calls.seen.empty()) << "nothing is new";
}

TEST(File, MakingFoldersReportsEveryFailingCallAndWhatIsInTheWay) {
  for (int doomed = 0; doomed < 6; ++doomed) {
    TempFolder folder;
    FolderCalls calls;
    calls.doomed = doomed;
    FileCallsScope scope(calls);
    expect_error([&] { make_folders_durable(folder / "a/b"); }, folder.path(), "errno 5");
  }
  TempFolder folder;
  std::string file = folder.write("file", "");
  expect_error([&] { make_folders_durable(file); }, file, "exists");
  expect_error([&] { make_folders_durable(file + "/inside"); }, file, "exists");
  expect_error([&] { make_folders_durable(""); }, "empty");
  std::string too_long = folder / std::string(300, 'x');
  expect_error([&] { make_folders_durable(too_long); }, "make folder", "too long");
}

TEST(File, ParentFolders) {
  EXPECT_EQ(parent_folder("name"), ".");
  EXPECT_EQ(parent_folder("/name"), "/");
  EXPECT_EQ(parent_folder("a/b/name"), "a/b");
}

}  // namespace
}  // namespace reprise::io
