// Writing safetensors.
#include <algorithm>

#include "reprise/core/error.h"
#include "reprise/core/no_compute.h"
#include "reprise/core/quote.h"
#include "reprise/core/transfer.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/elements.h"
#include "reprise/io/json.h"
#include "reprise/io/safetensors.h"
#include "reprise/io/safetensors_dtype.h"
#include "reprise/io/utf8.h"

namespace reprise::io {
namespace {

constexpr size_t alignment = 8;  // of the data in the file

using Entry = NamedViews::value_type;

std::vector<const Entry*> ordered(const std::string& path, const NamedViews& tensors) {
  std::vector<const Entry*> entries;
  for (const Entry& entry : tensors) {
    check(entry.first != "__metadata__", "safetensors: ", path, ": a tensor cannot be called __metadata__");
    check_utf8(entry.first, "a tensor's name");
    entries.push_back(&entry);
  }
  std::sort(entries.begin(), entries.end(), [](const Entry* a, const Entry* b) {
    size_t a_size = size_of(a->second.dtype), b_size = size_of(b->second.dtype);
    return a_size != b_size ? a_size > b_size : a->first < b->first;
  });
  return entries;
}

void check_names_differ(const std::string& path, const NamedViews& tensors) {
  std::vector<std::string_view> names;
  for (const Entry& entry : tensors) names.push_back(entry.first);
  std::sort(names.begin(), names.end());
  auto twice = std::adjacent_find(names.begin(), names.end());
  check(twice == names.end(), "safetensors: ", path, ": two tensors are called ",
        twice == names.end() ? "" : quote(*twice));
}

std::string metadata_json(const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  for (const auto& [key, value] : metadata) {
    check_utf8(key, "a metadata key");
    check_utf8(value, "metadata " + quote(key));
    text += (text.size() == 1 ? "" : ",") + json_quote(key) + ":" + json_quote(value);
  }
  return text + "}";
}

std::string header_json(const std::vector<const Entry*>& entries,
                        const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + metadata_json(metadata);
  uint64_t begin = 0;
  for (const Entry* entry : entries) {
    const TensorView& view = entry->second;
    uint64_t end = begin + uint64_t(view.numel()) * size_of(view.dtype);
    std::string shape;
    for (int64_t size : view.shape) shape += (shape.empty() ? "" : ",") + std::to_string(size);
    text += (text.size() == 1 ? "" : ",") + json_quote(entry->first);
    text += ":{\"dtype\":\"" + std::string(safetensors_name(view.dtype)) + "\",\"shape\":[" + shape +
            "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
    begin = end;
  }
  text += "}";
  text.resize((text.size() + alignment - 1) / alignment * alignment, ' ');
  return text;
}

}  // namespace

void write_safetensors(const std::string& path, const NamedViews& tensors,
                       const std::map<std::string, std::string>& metadata) {
  check(!NoCompute::is_on(), "safetensors: ", path, ": within a NoCompute tensors have no values to write");
  check_names_differ(path, tensors);
  check(metadata.size() <= most_safetensors_metadata, "safetensors: ", path, ": ", metadata.size(),
        " entries of metadata; at most ", most_safetensors_metadata, " are read again");
  std::vector<const Entry*> entries = ordered(path, tensors);
  std::string header = header_json(entries, metadata);
  check(header.size() <= 100'000'000, "safetensors: ", path, ": a header of ", header.size(),
        " bytes is too long");
  AtomicFile file(path);
  uint64_t header_bytes = header.size();
  file.write(&header_bytes, sizeof(header_bytes));
  file.write(header);
  for (const Entry* entry : entries) {
    const Tensor made = entry->second.made();
    if (made.defined())
      check(made.shape() == entry->second.shape && made.dtype() == entry->second.dtype, "safetensors: ", path,
            ": ", entry->first, " was made ", made.dtype(), made.shape(), ", and is to be ",
            entry->second.dtype, entry->second.shape);
    HostCopy host(made.defined() ? made.view() : TensorView(entry->second));
    for_each_piece(host.view(), [&](const void* data, size_t bytes) { file.write(data, bytes); });
  }
  file.commit();
}

}  // namespace reprise::io
