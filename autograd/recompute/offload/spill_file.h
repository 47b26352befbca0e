// SpillFile: bytes that memory has no room for, in a temporary file. The file has no name from the start, so
// nothing stays behind, not even after a crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>

namespace reprise {

/// Any thread may use it. Room that is released is written again; the file shrinks only when it goes.
class SpillFile {
 public:
  struct Extent {
    int64_t offset = 0, bytes = 0;
  };

  /// In `folder`; empty: the system's temporary folder. Error naming it if no file can be made there.
  explicit SpillFile(std::filesystem::path folder);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;

  /// Error naming the folder and the bytes, if the disk is full for one; the file is as before then.
  Extent write(const void* data, size_t bytes);
  /// Room in which nothing is written.
  Extent reserve(size_t bytes);
  void read(const Extent& extent, void* data) const;
  /// Asks the system to have the extent in memory soon.
  void prefetch(const Extent& extent) const noexcept;
  void release(const Extent& extent) noexcept;

  int64_t size() const;  ///< of the file, in bytes: the most that was held at once

 private:
  Extent take(int64_t bytes);
  void add_room(int64_t begin, int64_t end);

  std::filesystem::path folder_;
  int file_ = -1;
  mutable std::mutex mutex_;
  std::map<int64_t, int64_t> free_;  // bytes by offset; never two that touch
  int64_t end_ = 0;
};

}  // namespace reprise
