// The manifest of a checkpoint: which files belong to it, their sizes and checksums.
#pragma once

#include <string>
#include <vector>

namespace reprise::train {

inline constexpr const char* manifest_name = "manifest.json";

/// What manifest.json says of some files in `folder`.
std::string manifest_of(const std::string& folder, const std::vector<std::string>& names);
/// Writes manifest.json, atomically and durably: all that these say (manifest_of), by the names of the files.
void write_manifest(const std::string& folder, const std::vector<std::string>& parts);
/// The same, of all .safetensors files in `folder`.
void write_manifest(const std::string& folder);

/// The files that the manifest of `folder` lists. Error if it cannot be read.
std::vector<std::string> manifest_files(const std::string& folder);

/// Error naming the file and the fact if one is missing, of another size or checksum, or not in the manifest.
void check_manifest(const std::string& folder);

}  // namespace reprise::train
