#include "reprise/io/text/end_tokens.h"

#include <algorithm>

#include "reprise/io/atomic_file.h"
#include "reprise/io/file.h"
#include "reprise/io/folder.h"
#include "reprise/io/json.h"

namespace reprise::io {
namespace {

constexpr uint64_t largest_config = 4 << 20;
constexpr const char* generation_config = "/generation_config.json";

void add_id(JsonReader& json, std::vector<int32_t>& ids) {
  const int64_t id = json.integer();
  if (id >= 0 && id <= INT32_MAX && std::ranges::find(ids, id) == ids.end()) ids.push_back(int32_t(id));
}

std::vector<int32_t> read_ids(const std::string& path) {
  const std::string text = read_file(path, largest_config);
  std::vector<int32_t> ids;
  JsonReader json(text, path);
  json.object([&](const std::string& key) {
    if (key != "eos_token_id" || json.peek() == JsonReader::Kind::null) return json.skip();
    if (json.peek() == JsonReader::Kind::array) return json.array([&] { add_id(json, ids); });
    add_id(json, ids);
  });
  json.end();
  return ids;
}

}  // namespace

std::vector<int32_t> read_end_tokens(const std::string& folder) {
  for (const char* name : {generation_config, "/config.json"}) {
    if (!exists(folder + name)) continue;
    if (std::vector<int32_t> ids = read_ids(folder + name); !ids.empty()) return ids;
  }
  return {};
}

std::string end_tokens_json(const std::vector<int32_t>& ids) {
  if (ids.empty()) return "null";
  std::string list;
  for (const int32_t id : ids) list += (list.empty() ? "" : ", ") + std::to_string(id);
  return ids.size() == 1 ? list : "[" + list + "]";
}

void write_end_tokens(const std::string& folder, const std::vector<int32_t>& ids) {
  write_file(folder + generation_config, "{\"eos_token_id\": " + end_tokens_json(ids) + "}\n");
}

}  // namespace reprise::io
