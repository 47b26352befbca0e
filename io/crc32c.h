// CRC-32C (Castagnoli; RFC 3720, appendix B.4), as TFRecord files use it.
#pragma once

#include <cstdint>
#include <string_view>

namespace reprise::io {

/// `previous`: the checksum of what came before, for data that arrives in pieces.
uint32_t crc32c(std::string_view data, uint32_t previous = 0);

/// The checksum as TFRecord stores it, so that the checksum of data that holds checksums stays strong.
uint32_t masked_crc32c(std::string_view data);

}  // namespace reprise::io
