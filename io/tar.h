// tar archives: ustar (POSIX 1003.1-1988) with GNU's long names and pax headers (POSIX 1003.1-2001), not compressed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reprise/io/atomic_file.h"
#include "reprise/io/file.h"

namespace reprise::io {

/// A regular file in an archive.
struct TarEntry {
  std::string name;  ///< its path, without "./" in front
  uint64_t offset = 0, bytes = 0;
};

/// The regular files of an archive in its order; folders, links and devices are left out. Reads headers alone. Error,
/// naming the archive and the byte, if it is compressed, damaged, cut off, or holds sparse files, absolute names or "..".
std::vector<TarEntry> read_tar(const File& file);

/// Writes an archive, which appears whole or not at all. The same files give the same bytes: they have no times or owners.
class TarWriter {
 public:
  explicit TarWriter(const std::string& path) : file_(path) {}

  /// Error if `name` is longer than ustar's 100 bytes, or empty.
  void add(const std::string& name, std::string_view contents);
  uint64_t bytes() const { return bytes_; }  ///< written so far
  /// Ends the archive. Without it there is none.
  void commit();

 private:
  void write(std::string_view part);

  AtomicFile file_;
  uint64_t bytes_ = 0;
};

}  // namespace reprise::io
