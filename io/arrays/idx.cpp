#include "reprise/io/arrays/idx.h"

#include "reprise/core/error.h"
#include "reprise/io/file.h"
#include "reprise/io/gzip.h"

namespace reprise::io {
namespace {

constexpr uint32_t magic_of_bytes = 0x0800;  // its last byte is the rank

uint32_t big_endian(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = at; i < at + 4; ++i) value = value << 8 | uint8_t(bytes[i]);
  return value;
}

struct IdxHeader {
  std::vector<int64_t> shape{};
  size_t header_bytes = 0;
  uint64_t file_bytes = 0;  ///< header and data
};

IdxHeader read_header(std::string_view front, const std::string& name, int rank) {
  IdxHeader header{.header_bytes = 4 + 4 * size_t(rank)};
  check(front.size() >= header.header_bytes, "idx: ", name, ": wanted a header of ", header.header_bytes,
        " bytes, ", front.size(), " are there");
  uint32_t magic = big_endian(front, 0), wanted = magic_of_bytes | uint32_t(rank);
  check(magic == wanted, "idx: ", name, ": starts with ", magic, ", not with ", wanted, ", as bytes in ",
        rank, rank == 1 ? " dimension do" : " dimensions do");
  uint64_t count = 1;
  for (int d = 0; d < rank; ++d) {
    uint32_t size = big_endian(front, 4 + 4 * size_t(d));
    header.shape.push_back(size);
    check(!__builtin_mul_overflow(count, uint64_t(size), &count) && count <= uint64_t(INT64_MAX) / 2,
          "idx: ", name, ": its sizes multiply to more bytes than there can be");
  }
  header.file_bytes = header.header_bytes + count;
  return header;
}

}  // namespace

IdxArray parse_idx(std::string bytes, const std::string& name, int rank) {
  IdxHeader header;
  if (is_gzip(bytes)) {
    header = read_header(gunzip_front(bytes, name, 4 + 4 * size_t(rank)), name, rank);
    bytes = gunzip(bytes, name, header.file_bytes);
  } else {
    header = read_header(bytes, name, rank);
  }
  check(bytes.size() == header.file_bytes, "idx: ", name, ": wanted ", header.file_bytes, " bytes, ",
        bytes.size(), " are there");
  bytes.erase(0, header.header_bytes);
  return {std::move(header.shape), std::move(bytes)};
}

IdxArray read_idx(const std::string& path, int rank) { return parse_idx(read_file(path), path, rank); }

std::string write_idx(const IdxArray& array) {
  std::string out;
  auto put = [&](uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) out += char(value >> shift);
  };
  put(magic_of_bytes | uint32_t(array.shape.size()));
  for (int64_t size : array.shape) put(uint32_t(size));
  return out + array.bytes;
}

}  // namespace reprise::io
