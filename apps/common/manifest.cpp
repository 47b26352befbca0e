// Sizes and checksums of a checkpoint's files.
#include "reprise/apps/common/manifest.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "reprise/core/error.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/crc32c.h"
#include "reprise/io/json.h"

namespace reprise::apps {
namespace {

namespace fs = std::filesystem;

uint32_t checksum(const io::File& file) {
  std::vector<char> chunk(1 << 20);
  uint32_t crc = 0;
  for (uint64_t at = 0; at < file.size(); at += chunk.size()) {
    size_t bytes = size_t(std::min<uint64_t>(chunk.size(), file.size() - at));
    file.read_at(at, chunk.data(), bytes);
    crc = io::crc32c({chunk.data(), bytes}, crc);
  }
  return crc;
}

void check_file(const std::string& path, int64_t bytes, int64_t crc) {
  io::File file = io::File::open(path);
  check(int64_t(file.size()) == bytes, path, ": has ", file.size(), " bytes, the manifest says ", bytes);
  check(checksum(file) == crc, path, ": damaged: its checksum is not the manifest's");
}

}  // namespace

void write_manifest(const std::string& folder) {
  std::string text = "{";
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    io::File file = io::File::open(entry.path());
    text += text.size() > 1 ? ",\n " : "\n ";
    text += io::json_quote(entry.path().filename().string()) + ": [" + std::to_string(file.size()) + ", " +
            std::to_string(checksum(file)) + "]";
  }
  io::write_file(folder + "/manifest.json", text + "\n}\n");
}

void check_manifest(const std::string& folder) {
  std::string path = folder + "/manifest.json", text = io::read_file(path);
  io::JsonReader json(text, path);
  std::set<std::string> listed;
  json.object([&](const std::string& name) {
    check(name.find('/') == std::string::npos, path, ": names a file outside its folder: ", name);
    std::vector<int64_t> facts;
    json.array([&] { facts.push_back(json.integer()); });
    check(facts.size() == 2, path, ": ", name, " needs its bytes and checksum");
    check_file(folder + "/" + name, facts[0], facts[1]);
    listed.insert(name);
  });
  json.end();
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename();
    check(entry.path().extension() != ".safetensors" || listed.contains(name), folder, "/", name,
          ": not in the manifest");
  }
}

}  // namespace reprise::apps
