// A file that appears whole or not at all: whatever fails, and whenever the power goes, a reader of `path`
// sees the old contents or the new ones.
#pragma once

#include <string>
#include <string_view>

#include "reprise/io/file.h"

namespace reprise::io {

/// Writes to a temporary file in the same folder; `commit` makes it durable and renames it. Destroyed before
/// that, it removes the temporary and leaves `path` as it was. Error where that is a device, a pipe or a socket.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes) { file_.write(data, bytes); }
  void write(std::string_view text) { file_.write(text); }
  /// For a library that writes by name: it replaces this file, which `reopen` takes up.
  const std::string& temporary() const { return file_.path(); }
  void reopen() { file_ = File::append(file_.path()); }
  /// Syncs, closes, renames over `path` and syncs the folder. Errors name the file that failed.
  void commit();

 private:
  std::string path_;
  File file_;
  bool pending_ = true;
};

/// Replaces `path` by `contents`, atomically and durably.
void write_file(const std::string& path, std::string_view contents);

}  // namespace reprise::io
