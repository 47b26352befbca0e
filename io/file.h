// Files whose every failure is an Error with the path and the system's reason. Reads are `pread`s of regular
// files: a file that shrinks meanwhile is an Error, where a mapped one would be a SIGBUS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::io {

/// An open file descriptor; move-only. Closing checks the result, save in the destructor.
class File {
 public:
  /// Opens a regular file for reading. Error if it is missing, unreadable, a folder, a device or a pipe.
  static File open(const std::string& path);
  /// Creates a file for writing. Error if it is there already.
  static File create(const std::string& path);
  /// Opens a regular file for writing at its end, creating it if it is missing.
  static File append(const std::string& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::string& path() const { return path_; }  ///< as given
  uint64_t size() const;                             ///< bytes

  /// Reads exactly `bytes` at `offset`. Error if the file ends before.
  void read_at(uint64_t offset, void* data, size_t bytes) const;
  /// @{
  /// Writes all of it, through interruptions and short writes.
  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// @}
  /// Writes all of `text` at the end or, if that fails, cuts off again what a full disk took of it: a log
  /// stays whole, and can go on when there is room. For files that nothing else writes.
  void write_whole(std::string_view text);
  /// Waits until what was written is on the disk.
  void sync();
  /// Closes; Error if the system reports a late write failure. Further use is an Error.
  void close();

 private:
  File(const std::string& path, int flags, const char* op);
  void check_regular() const;

  std::string path_;
  int descriptor_ = -1;
};

/// A whole regular file. Error if it has more than `most` bytes or more than memory can hold.
std::string read_file(const std::string& path, uint64_t most = UINT64_MAX);

/// Makes renames, creations and deletions in `folder` durable.
void sync_folder(const std::string& folder);

/// Makes `folder` and those above it that are missing, each durable in its parent before the next: after a
/// loss of power they are there, as what is written into them will be. Error if something of that name is no
/// folder.
void make_folders_durable(const std::string& folder);

/// The folder that `path` lies in: "." for a bare name.
std::string parent_folder(const std::string& path);

}  // namespace reprise::io
