// Making the file, its free room, reading and writing.
#include "reprise/autograd/recompute/offload/spill_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "reprise/core/error.h"

namespace reprise {
namespace {

constexpr int64_t page = 4096;  // extents begin and end at pages, so that none shares one with another

int make_file(const std::filesystem::path& folder) {
  std::string text = (folder / "reprise-spill-XXXXXX").string();
  std::vector<char> name(text.begin(), text.end());
  name.push_back('\0');
  int file = mkostemp(name.data(), O_CLOEXEC);
  check(file >= 0, "spill file: cannot make one in ", folder, ": ", std::strerror(errno));
  unlink(name.data());
  return file;
}

std::filesystem::path temporary_folder() {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  check(!error, "spill file: no temporary folder (TMPDIR): ", error.message());
  return folder;
}

}  // namespace

SpillFile::SpillFile(std::filesystem::path folder)
    : folder_(folder.empty() ? temporary_folder() : std::move(folder)), file_(make_file(folder_)) {}

SpillFile::~SpillFile() { close(file_); }

SpillFile::Extent SpillFile::write(const void* data, size_t bytes) {
  const Extent extent = reserve(bytes);
  for (size_t done = 0; done < bytes;) {
    ssize_t written = pwrite(file_, static_cast<const char*>(data) + done, bytes - done,
                             off_t(extent.offset) + off_t(done));
    if (written < 0 && errno == EINTR) continue;
    int reason = written < 0 ? errno : ENOSPC;
    if (written <= 0) {
      release(extent);
      fail("spill file: cannot write ", bytes, " bytes in ", folder_, ": ", std::strerror(reason));
    }
    done += size_t(written);
  }
  return extent;
}

SpillFile::Extent SpillFile::reserve(size_t bytes) {
  return {take((int64_t(bytes) + page - 1) / page * page).offset, int64_t(bytes)};
}

void SpillFile::read(const Extent& extent, void* data) const {
  for (int64_t done = 0; done < extent.bytes;) {
    ssize_t count =
        pread(file_, static_cast<char*>(data) + done, size_t(extent.bytes - done), extent.offset + done);
    if (count < 0 && errno == EINTR) continue;
    check(count > 0, "spill file: cannot read ", extent.bytes, " bytes back in ", folder_, ": ",
          count < 0 ? std::strerror(errno) : "the file is too short");
    done += count;
  }
}

void SpillFile::prefetch(const Extent& extent) const noexcept {
  posix_fadvise(file_, extent.offset, extent.bytes, POSIX_FADV_WILLNEED);  // advice only
}

void SpillFile::release(const Extent& extent) noexcept {
  if (extent.bytes == 0) return;
  std::lock_guard lock(mutex_);
  try {
    add_room(extent.offset, extent.offset + (extent.bytes + page - 1) / page * page);
  } catch (const std::bad_alloc&) {
    // The room is not remembered: the file is larger than it need be, and all else is as it should.
  }
}

void SpillFile::add_room(int64_t begin, int64_t end) {
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && next->first == end) {
    end += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == begin)
    std::prev(next)->second = end - std::prev(next)->first;
  else
    free_[begin] = end - begin;
}

int64_t SpillFile::size() const {
  std::lock_guard lock(mutex_);
  return end_;
}

// The smallest free piece that will do, or the end of the file.
SpillFile::Extent SpillFile::take(int64_t bytes) {
  std::lock_guard lock(mutex_);
  auto best = free_.end();
  for (auto i = free_.begin(); i != free_.end(); ++i)
    if (i->second >= bytes && (best == free_.end() || i->second < best->second)) best = i;
  if (best == free_.end()) {
    end_ += bytes;
    return {end_ - bytes, bytes};
  }
  auto [offset, room] = *best;
  if (room > bytes) free_[offset + bytes] = room - bytes;
  free_.erase(best);
  return {offset, bytes};
}

}  // namespace reprise
