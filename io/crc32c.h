// CRC-32C (Castagnoli; RFC 3720, appendix B.4), as TFRecord files use it.
#pragma once

#include <cstdint>
#include <string_view>

namespace reprise::io {

uint32_t crc32c(std::string_view data);

/// The checksum as TFRecord stores it, so that the checksum of data that holds checksums stays strong.
uint32_t masked_crc32c(std::string_view data);

}  // namespace reprise::io
