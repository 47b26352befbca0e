// Sizes and checksums of a checkpoint's files.
#include "reprise/train/checkpoint/manifest.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/crc32c.h"
#include "reprise/io/folder.h"
#include "reprise/io/json.h"

namespace reprise::train {
namespace {

uint32_t checksum(const io::File& file) {
  std::vector<char> chunk(1 << 18);
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

// That of 10,000 ranks, each with a file of its own, is smaller.
constexpr uint64_t largest_manifest = 1 << 20;

// Calls `entry(name, bytes, checksum)` for each file that `text`, from `path`, lists.
template <class Entry>
void read_entries(const std::string& text, const std::string& path, Entry&& entry) {
  io::JsonReader json(text, path);
  json.object([&](const std::string& name) {
    check(name.find('/') == std::string::npos, path, ": names a file outside its folder: ", quote(name));
    int64_t facts[2] = {};
    size_t count = 0;
    json.array([&] {
      int64_t fact = json.integer();
      if (count < 2) facts[count] = fact;
      ++count;
    });
    check(count == 2, path, ": ", quote(name), " needs its bytes and checksum");
    entry(name, facts[0], facts[1]);
  });
  json.end();
}

template <class Entry>
void read_manifest(const std::string& folder, Entry&& entry) {
  const std::string path = folder + "/" + manifest_name;
  read_entries(io::read_file(path, largest_manifest), path, entry);
}

// By the names of the files: bytes and checksum.
using Facts = std::map<std::string, std::pair<int64_t, int64_t>>;

std::string text_of(const Facts& all) {
  std::string text = "{";
  for (const auto& [name, facts] : all)
    text += (text.size() > 1 ? ",\n " : "\n ") + io::json_quote(name) + ": [" + std::to_string(facts.first) +
            ", " + std::to_string(facts.second) + "]";
  return text + "\n}\n";
}

}  // namespace

std::string manifest_of(const std::string& folder, const std::vector<std::string>& names) {
  Facts all;
  for (const std::string& name : names) {
    const io::File file = io::File::open(folder + "/" + name);
    all[name] = {int64_t(file.size()), int64_t(checksum(file))};
  }
  return text_of(all);
}

void write_manifest(const std::string& folder, const std::vector<std::string>& parts) {
  Facts all;
  for (const std::string& part : parts)
    read_entries(part, manifest_name, [&](const std::string& name, int64_t bytes, int64_t crc) {
      all[name] = {bytes, crc};
    });
  io::write_file(folder + "/" + manifest_name, text_of(all));
}

void write_manifest(const std::string& folder) {
  std::vector<std::string> names = io::names_in(folder);
  std::erase_if(names, [](const std::string& name) { return !name.ends_with(".safetensors"); });
  write_manifest(folder, {manifest_of(folder, names)});
}

std::vector<std::string> manifest_files(const std::string& folder) {
  std::vector<std::string> names;
  read_manifest(folder, [&](const std::string& name, int64_t, int64_t) { names.push_back(name); });
  return names;
}

void check_manifest(const std::string& folder) {
  std::set<std::string> listed;
  read_manifest(folder, [&](const std::string& name, int64_t bytes, int64_t crc) {
    // Twice would cost as much time again as reading the file does.
    check(listed.insert(name).second, folder, "/", manifest_name, ": names ", quote(name), " twice");
    check_file(folder + "/" + name, bytes, crc);
  });
  for (const std::string& name : io::names_in(folder))
    check(!name.ends_with(".safetensors") || listed.contains(name), folder, "/", name,
          ": not in the manifest");
}

}  // namespace reprise::train
