// Event protocol buffers, written by hand, in TFRecord frames.
#include "reprise/io/tensorboard.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <filesystem>

#include "reprise/io/crc32c.h"

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

// TensorBoard reads a folder's files in the order of their names, so the time comes first, at full width.
File create_events_file(const std::string& folder) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::string stem = folder + "/events.out.tfevents." + std::to_string(int64_t(now())) + "." + host.data() +
                     "." + std::to_string(::getpid());
  int serial = 0;
  auto path = [&] { return stem + "." + std::to_string(serial); };
  std::error_code error;
  while (std::filesystem::exists(path(), error) && !error) ++serial;  // what else is wrong, creating it tells
  return File::create(path());
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const std::string& folder, std::optional<int64_t> resume_step)
    : file_(create_events_file(folder)) {
  write_record(event(now(), 0, bytes_field(3, "brain.Event:2")));
  // Field 7, session_log, with status START: what lies at this step and after it is purged.
  if (resume_step) write_record(event(now(), *resume_step + 1, bytes_field(7, varint_field(1, 1))));
}

void TensorBoardWriter::scalar(std::string_view tag, int64_t step, double value,
                               std::optional<double> wall_time) {
  std::string entry = bytes_field(1, tag) + float_field(2, float(value));
  write_record(event(wall_time.value_or(now()), step, bytes_field(5, bytes_field(1, entry))));
}

void TensorBoardWriter::write_record(std::string_view data) {
  std::string length = little_endian(uint64_t(data.size()));
  file_.write_whole(length + little_endian(masked_crc32c(length)) + std::string(data) +
                    little_endian(masked_crc32c(data)));
}

void TensorBoardWriter::close() {
  file_.sync();
  file_.close();
}

}  // namespace reprise::io
