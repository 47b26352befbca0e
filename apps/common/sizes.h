// Sizes in bytes as people write them.
#pragma once

#include <cstddef>
#include <string_view>

namespace reprise::apps {

/// "512MiB", "2GiB", "1.5GB", "1000000". Error on anything else.
size_t parse_bytes(std::string_view text);

}  // namespace reprise::apps
