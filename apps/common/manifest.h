// The manifest of a checkpoint: which files belong to it, their sizes and checksums.
#pragma once

#include <string>

namespace reprise::apps {

/// Writes manifest.json for all .safetensors files in `folder`, atomically and durably.
void write_manifest(const std::string& folder);

/// Error naming the file and the fact if one is missing, of another size or checksum, or not in the manifest.
void check_manifest(const std::string& folder);

}  // namespace reprise::apps
