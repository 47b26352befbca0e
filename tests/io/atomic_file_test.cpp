// Atomic writes: every call made to fail in turn, and power cuts replayed from a record of the calls.
#include "reprise/io/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <vector>

#include "reprise/io/file_calls.h"
#include "reprise/io/folder.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using testing::TempFolder;

// Fails the call number `doomed` (from 0) of those that writing makes.
class FailingCalls : public FileCalls {
 public:
  explicit FailingCalls(int doomed) : doomed_(doomed) {}
  int open(const char* path, int flags, mode_t mode) override {
    return fails() ? -1 : FileCalls::open(path, flags, mode);
  }
  ssize_t write(int descriptor, const void* data, size_t bytes) override {
    return fails() ? -1 : FileCalls::write(descriptor, data, std::min<size_t>(bytes, 4));
  }
  int fsync(int descriptor) override { return fails() ? -1 : FileCalls::fsync(descriptor); }
  int close(int descriptor) override {
    int result = FileCalls::close(descriptor);
    return fails() ? -1 : result;
  }
  int rename(const char* from, const char* to) override { return fails() ? -1 : FileCalls::rename(from, to); }
  bool reached() const { return calls_ > doomed_; }

 private:
  bool fails() {
    errno = EIO;
    return calls_++ == doomed_;
  }
  int calls_ = 0;
  int doomed_;
};

size_t files_in(const TempFolder& folder) {
  std::filesystem::directory_iterator entries(folder.path());
  return size_t(std::distance(begin(entries), end(entries)));
}

TEST(AtomicFile, ReplacesTheOldContents) {
  TempFolder folder;
  std::string path = folder.write("state", "old");
  write_file(path, "new contents");
  EXPECT_EQ(read_file(path), "new contents");
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(AtomicFile, WithoutCommitNothingChanges) {
  TempFolder folder;
  std::string path = folder.write("state", "old");
  { AtomicFile(path).write("half"); }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(AtomicFile, AnyFailingCallIsAnErrorAndLeavesOldOrNewWhole) {
  for (int doomed = 0;; ++doomed) {
    TempFolder folder;
    std::string path = folder.write("state", "old");
    FailingCalls calls(doomed);
    bool failed = false;
    try {
      FileCallsScope scope(calls);
      write_file(path, "new contents");
    } catch (const Error& error) {
      failed = true;
      EXPECT_NE(std::string(error.what()).find(folder.path()), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("errno 5"), std::string::npos) << error.what();
    }
    std::string contents = read_file(path);
    EXPECT_TRUE(contents == "old" || contents == "new contents") << "call " << doomed << ": " << contents;
    EXPECT_EQ(files_in(folder), 1u) << "call " << doomed << " left a temporary file";
    if (!calls.reached()) {
      EXPECT_GE(doomed, 8);  // open, 3 writes, fsync, close, rename, then the folder's open, fsync, close
      break;
    }
    EXPECT_TRUE(failed) << "call " << doomed << " failed in silence";
  }
}

// A model of a disk that keeps only what was synced: a file's bytes at its fsync, a rename at its folder's
// fsync. A disk may also have done more than that, in any subset, so each unsynced rename is tried done and
// not done.
class RecordingCalls : public FileCalls {
 public:
  explicit RecordingCalls(std::string old_contents) : durable_(std::move(old_contents)) {}
  int open(const char* path, int flags, mode_t mode) override {
    int descriptor = FileCalls::open(path, flags, mode);
    if (std::filesystem::is_regular_file(path)) open_[descriptor] = path;
    return descriptor;
  }
  ssize_t write(int descriptor, const void* data, size_t bytes) override {
    bytes = std::min<size_t>(bytes, 5);
    cache_[open_[descriptor]].append(static_cast<const char*>(data), bytes);
    cut_power();
    return FileCalls::write(descriptor, data, bytes);
  }
  int fsync(int descriptor) override {
    if (open_.count(descriptor) != 0) {
      synced_[open_[descriptor]] = cache_[open_[descriptor]];
    } else if (renamed_) {
      durable_ = synced_[from_];
      renamed_ = false;
    }
    cut_power();
    return FileCalls::fsync(descriptor);
  }
  int close(int descriptor) override {
    open_.erase(descriptor);
    return FileCalls::close(descriptor);
  }
  int rename(const char* from, const char* to) override {
    from_ = from;
    renamed_ = true;
    cut_power();
    return FileCalls::rename(from, to);
  }
  std::vector<std::string> seen_after_power_cuts;

 private:
  void cut_power() {
    seen_after_power_cuts.push_back(durable_);
    if (renamed_) seen_after_power_cuts.push_back(synced_[from_]);
  }
  std::string durable_, from_;
  bool renamed_ = false;
  std::map<int, std::string> open_;
  std::map<std::string, std::string> cache_, synced_;
};

TEST(AtomicFile, APowerCutAtAnyMomentLeavesOldOrNewWhole) {
  TempFolder folder;
  std::string path = folder.write("state", "old");
  RecordingCalls calls("old");
  {
    FileCallsScope scope(calls);
    write_file(path, "the new contents");
  }
  ASSERT_GE(calls.seen_after_power_cuts.size(), 7u);
  for (const std::string& contents : calls.seen_after_power_cuts) {
    EXPECT_TRUE(contents == "old" || contents == "the new contents") << contents;
  }
  EXPECT_EQ(calls.seen_after_power_cuts.back(), "the new contents");
}

// As root, /dev/null would be a file from then on; a test that tried it would leave that behind where it fails.
TEST(AtomicFiles, TakeTheirPlaceFromNoDeviceOrPipe) {
  const TempFolder folder;
  const std::string pipe = folder / "pipe", link = folder / "link";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", link);
  for (const std::string& path : {pipe, link})
    testing::expect_error([&] { write_file(path, "text"); },
                          "write: " + path + " is a device, a pipe or a socket");
  EXPECT_EQ(std::filesystem::status(pipe).type(), std::filesystem::file_type::fifo);
  EXPECT_EQ(names_in(folder / ""), (std::vector<std::string>{"link", "pipe"})) << "nothing is left behind";
}

}  // namespace
}  // namespace reprise::io
