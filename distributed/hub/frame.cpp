#include "reprise/distributed/hub/frame.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "reprise/core/number_in.h"

namespace reprise::distributed {
namespace {

void append_number(std::string& bytes, size_t value) {
  const auto number = uint32_t(value);
  bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

size_t number_at(const std::string& bytes, size_t at) {
  uint32_t number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

constexpr size_t head = sizeof(uint32_t) + 1;  // bytes behind it, kind

}  // namespace

// The number of bytes behind the kind, the kind, and each field behind its own number of bytes.
std::string encode(const Frame& frame) {
  std::string fields;
  for (const std::string& field : frame.fields) {
    append_number(fields, field.size());
    fields += field;
  }
  check(fields.size() <= longest_frame, "hub: a frame '", char(frame.kind), "' of ", fields.size(),
        " bytes; the most are ", longest_frame);
  std::string bytes;
  append_number(bytes, fields.size());
  return bytes + char(frame.kind) + fields;
}

std::optional<Frame> FrameReader::next() {
  if (bytes_.size() < head) return {};
  const size_t size = number_at(bytes_, 0);
  check(size <= longest_frame, "hub: what arrived is no frame");
  check(std::strchr("GHACPWRFBLT", bytes_[4]) && bytes_[4], "hub: what arrived is no frame");
  if (bytes_.size() < head + size + seal_.size()) return {};
  const std::string_view all = bytes_;
  check(is_same_secret(seal_.mac_of(all.substr(0, head + size)), all.substr(head + size, seal_.size())),
        "hub: a frame's MAC is not that of the frame which comes next");
  seal_.advance();
  Frame frame{FrameKind(bytes_[4])};
  for (size_t at = head; at < head + size;) {
    check(at + sizeof(uint32_t) <= head + size, "hub: a frame ends within a field");
    const size_t length = number_at(bytes_, at);
    at += sizeof(uint32_t);
    check(length <= head + size - at, "hub: a frame ends within a field");
    frame.fields.push_back(bytes_.substr(at, length));
    at += length;
  }
  bytes_.erase(0, head + size + seal_.size());
  return frame;
}

int64_t number_in_frame(const Frame& frame, size_t i, int64_t least, int64_t most) {
  const auto number = i < frame.fields.size() ? number_in<int64_t>(frame.fields[i]) : std::nullopt;
  check(number && *number >= least && *number <= most, "hub: a frame '", char(frame.kind),
        "' has no number from ", least, " to ", most, " in field ", i);
  return *number;
}

constexpr int64_t most_heard = INT32_MAX;  // milliseconds that a failure may say

Frame frame_of(const Failure& failure) {
  return {FrameKind::failure,
          {std::to_string(int(failure.kind)), std::to_string(failure.rank),
           failure.message.substr(0, longest_frame / 2),
           std::to_string(
               failure.heard < 0 ? -1 : std::min<int64_t>(std::llround(failure.heard * 1000), most_heard))}};
}

Failure failure_in(const Frame& frame) {
  check(frame.fields.size() == 4, "hub: a failure of ", frame.fields.size(), " fields");
  const int64_t heard = number_in_frame(frame, 3, -1, most_heard);
  return {FailureKind(number_in_frame(frame, 0, 0, int64_t(FailureKind::transport))),
          int(number_in_frame(frame, 1, 0, 1 << 20)), frame.fields[2], heard < 0 ? -1 : double(heard) / 1000};
}

}  // namespace reprise::distributed
