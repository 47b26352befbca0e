// CRC-32C by eight tables of bytes, which take eight bytes at once (Kounavis and Berry 2005).
#include "reprise/io/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace reprise::io {
namespace {

using Table = std::array<uint32_t, 256>;

// tables[k][b]: what byte b does to the checksum when k more bytes have come after it.
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < tables.size(); ++k)
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  return tables;
}

constexpr std::array<Table, 8> tables = make_tables();

static_assert(std::endian::native == std::endian::little);

}  // namespace

uint32_t crc32c(std::string_view data, uint32_t previous) {
  uint32_t crc = ~previous;
  for (; data.size() >= 8; data.remove_prefix(8)) {
    uint64_t word;
    std::memcpy(&word, data.data(), 8);
    word ^= crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= tables[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (char c : data) crc = (crc >> 8) ^ tables[0][(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

uint32_t masked_crc32c(std::string_view data) { return std::rotr(crc32c(data), 15) + 0xa282ead8u; }

}  // namespace reprise::io
