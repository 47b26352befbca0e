#include "reprise/io/weights.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"
#include "reprise/io/arrays/npz.h"
#include "reprise/io/folder.h"
#include "reprise/io/json.h"
#include "reprise/io/llm_c.h"
#include "reprise/io/safetensors.h"

namespace reprise::io {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t largest_index = 16 << 20;  // 100,000 tensors take about 10 MB

// The first 12 bytes; zeros where the file is shorter.
std::array<char, 12> first_bytes(const std::string& path) {
  std::array<char, 12> bytes{};
  const File file = File::open(path);
  file.read_at(0, bytes.data(), std::min<size_t>(bytes.size(), size_t(file.size())));
  return bytes;
}

// The header's length, which is below 4 GiB, and the header: what no other format begins with.
bool is_safetensors(const std::array<char, 12>& bytes) {
  return bytes[8] == '{' && std::all_of(bytes.begin() + 4, bytes.begin() + 8, [](char c) { return c == 0; });
}

int32_t first_word(const std::array<char, 12>& bytes) {
  int32_t word = 0;
  std::copy_n(bytes.begin(), sizeof(word), reinterpret_cast<char*>(&word));
  return word;
}

// A pickle, or a zip archive of them. The line is for a shell, which must not obey a path.
[[noreturn]] void refuse_code(const std::string& path) {
  const bool is_plain = path.find_first_of("'\"\\$`!\n") == std::string::npos;
  const std::string from = is_plain ? path : "FILE",
                    to = fs::path(from).replace_extension(".safetensors").string();
  fail("weights: ", path,
       ": pickles can run code and are not read here; convert it with\n  python3 -c \"import torch; from "
       "safetensors.torch import save_file; save_file({k: v.clone() for k, v in torch.load('",
       from, "', weights_only=True).items()}, '", to, "')\"");
}

Weights read_one(const std::string& path) {
  const auto bytes = first_bytes(path);
  const int32_t word = first_word(bytes);
  const std::string extension = fs::path(path).extension().string();
  const bool is_code = std::set<std::string>{".pt", ".pth", ".bin", ".ckpt"}.contains(extension);
  if (!is_safetensors(bytes)) {
    if (word == llm_c_magic || word == llm_c_llama_magic) {
      LlmC model = read_llm_c(path);
      return {.tensors = std::move(model.tensors), .heads = model.heads};
    }
    if (extension == ".npz") return {.tensors = read_npz(path)};
    const bool is_zip = std::string_view(bytes.data(), 4) == "PK\x03\x04";
    if (is_code || is_zip || bytes[0] == '\x80') refuse_code(path);
  }
  SafetensorsFile file(path);
  Weights weights{.metadata = file.metadata()};
  for (const SafetensorInfo& info : file.tensors())
    weights.tensors.emplace_back(info.name, file.read(info.name));
  return weights;
}

// {"weight_map": {"wte.weight": "model-00001-of-00002.safetensors", ...}}
std::map<std::string, std::string> weight_map(const std::string& path) {
  std::map<std::string, std::string> files;
  const std::string text = read_file(path, largest_index);
  JsonReader json(text, path);
  json.object([&](const std::string& key) {
    if (key != "weight_map") return json.skip();
    json.object([&](std::string name) {
      const size_t offset = json.offset();
      std::string file = json.string();
      if (file.find('/') != std::string::npos || !file.ends_with(".safetensors"))
        json.fail_at(offset, quote(file) + " is no .safetensors file beside the index");
      files[std::move(name)] = std::move(file);
    });
  });
  json.end();
  return files;
}

Weights read_shards(const std::string& path) {
  const std::map<std::string, std::string> files = weight_map(path);
  check(!files.empty(), "weights: ", path, ": names no tensors");
  std::set<std::string> names;
  for (const auto& [tensor, file] : files) names.insert(file);
  Weights all;
  for (const std::string& name : names) {
    const std::string shard = parent_folder(path) + "/" + name;
    SafetensorsFile file(shard);
    for (const SafetensorInfo& info : file.tensors()) {
      auto found = files.find(info.name);
      check(found != files.end() && found->second == name, "weights: ", shard, ": tensor ", quote(info.name),
            " is not of this file in ", path);
      all.tensors.emplace_back(info.name, file.read(info.name));
    }
  }
  check(all.tensors.size() == files.size(), "weights: ", path, ": names ", files.size(),
        " tensors, the files hold ", all.tensors.size());
  return all;
}

}  // namespace

Weights read_weights(const std::string& path) {
  check(exists(path), path, ": no such file or folder");
  if (!fs::is_directory(path)) return path.ends_with(".json") ? read_shards(path) : read_one(path);
  for (const char* name : {"/model.safetensors", "/model.safetensors.index.json"})
    if (exists(path + name)) return read_weights(path + name);
  fail("weights: ", path, ": no model.safetensors and no model.safetensors.index.json there");
}

}  // namespace reprise::io
