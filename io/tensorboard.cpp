// Event protocol buffers, written by hand, in TFRecord frames.
#include "reprise/io/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>

#include "reprise/core/error.h"
#include "reprise/io/crc32c.h"
#include "reprise/io/file_calls.h"
#include "reprise/io/folder.h"

namespace reprise::io {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

template <class T>
std::string little_endian(T value) {
  static_assert(std::endian::native == std::endian::little);
  auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
  return std::string(bytes.data(), bytes.size());
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += char(value | 0x80);
  return bytes + char(value);
}

// Protocol buffer fields: a key of number << 3 | wire type, then the value.
std::string varint_field(int number, uint64_t value) { return varint(uint64_t(number) << 3) + varint(value); }
std::string double_field(int number, double value) {
  return varint(uint64_t(number) << 3 | 1) + little_endian(value);
}
std::string bytes_field(int number, std::string_view value) {
  return varint(uint64_t(number) << 3 | 2) + varint(value.size()) + std::string(value);
}
std::string float_field(int number, float value) {
  return varint(uint64_t(number) << 3 | 5) + little_endian(value);
}

// Event: 1 wall_time, 2 step, then what happened.
std::string event(double wall_time, int64_t step, const std::string& what) {
  return double_field(1, wall_time) + varint_field(2, uint64_t(step)) + what;
}

constexpr std::string_view file_prefix = "events.out.tfevents.";

// The time in the name of the newest events file of `folder`, or 0.
int64_t newest_time(const std::string& folder) {
  int64_t newest = 0;
  for (const std::string& name : names_in(folder)) {
    if (!name.starts_with(file_prefix)) continue;
    int64_t time = 0;
    std::from_chars(name.data() + file_prefix.size(), name.data() + name.size(), time);
    if (time < INT64_MAX) newest = std::max(newest, time);
  }
  return newest;
}

// TensorBoard reads a folder's files in the order of their names, so the time comes first, at full width; and
// later than all others, also where two runs began in one second or the clock was put back.
File create_events_file(const std::string& folder) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  int64_t time = std::max(int64_t(now()), newest_time(folder) + 1);
  return File::create(folder + "/" + std::string(file_prefix) + std::to_string(time) + "." + host.data() +
                      "." + std::to_string(::getpid()) + ".0");
}

std::string framed(std::string_view data) {
  std::string length = little_endian(uint64_t(data.size()));
  return length + little_endian(masked_crc32c(length)) + std::string(data) +
         little_endian(masked_crc32c(data));
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const std::string& folder, std::optional<int64_t> resume_step)
    : file_(create_events_file(folder)) {
  std::string head = framed(event(now(), 0, bytes_field(3, "brain.Event:2")));
  // Field 7, session_log, with status START: what lies at this step and after it is purged.
  if (resume_step) head += framed(event(now(), *resume_step + 1, bytes_field(7, varint_field(1, 1))));
  try {
    file_.write_whole(head);
  } catch (const Error&) {
    file_calls().unlink(path().c_str());  // who tries again does not leave an empty file each time
    throw;
  }
}

void TensorBoardWriter::scalar(std::string_view tag, int64_t step, double value,
                               std::optional<double> wall_time) {
  std::string entry = bytes_field(1, tag) + float_field(2, float(value));
  file_.write_whole(framed(event(wall_time.value_or(now()), step, bytes_field(5, bytes_field(1, entry)))));
}

void TensorBoardWriter::close() {
  file_.sync();
  file_.close();
}

}  // namespace reprise::io
