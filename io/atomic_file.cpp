// Temporary file -> write -> fsync -> rename -> fsync the folder.
#include "reprise/io/atomic_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "reprise/core/error.h"
#include "reprise/io/file_calls.h"

namespace reprise::io {
namespace {

// Unique among processes and threads; what a killed process of the same number left behind is replaced.
File create_temporary(const std::string& path) {
  static std::atomic<unsigned> serial{0};
  std::string name = path + ".tmp." + std::to_string(::getpid()) + "." + std::to_string(serial++);
  file_calls().unlink(name.c_str());
  return File::create(name);
}

// `path`. A rename would put a file in the place of a device or a pipe, /dev/null too. A folder is refused by the rename itself.
std::string no_device(std::string path) {
  struct stat at {};
  check(::stat(path.c_str(), &at) != 0 || S_ISREG(at.st_mode) || S_ISDIR(at.st_mode), "write: ", path,
        " is a device, a pipe or a socket, which a file would replace; name a file");
  return path;
}

}  // namespace

AtomicFile::AtomicFile(std::string path)
    : path_(no_device(std::move(path))), file_(create_temporary(path_)) {}

AtomicFile::~AtomicFile() {
  if (pending_) file_calls().unlink(file_.path().c_str());
}

void AtomicFile::commit() {
  file_.sync();
  file_.close();
  if (file_calls().rename(file_.path().c_str(), path_.c_str()) != 0) {
    int reason = errno;
    fail("rename: ", file_.path(), " to ", path_, ": ", std::strerror(reason), " (errno ", reason, ")");
  }
  pending_ = false;
  sync_folder(parent_folder(path_));
}

void write_file(const std::string& path, std::string_view contents) {
  AtomicFile file(path);
  file.write(contents);
  file.commit();
}

}  // namespace reprise::io
