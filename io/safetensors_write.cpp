// Writing safetensors.
#include <algorithm>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"
#include "reprise/core/transfer.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/json.h"
#include "reprise/io/safetensors.h"
#include "reprise/io/safetensors_dtype.h"
#include "reprise/io/utf8.h"

namespace reprise::io {
namespace {

constexpr size_t alignment = 8;                   // of the data in the file
constexpr size_t gather_bytes = size_t(1) << 20;  // written at once from a tensor that is not contiguous

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

// Copies elements in row-major order through a buffer.
void write_strided(AtomicFile& file, const TensorView& view) {
  size_t width = size_of(view.dtype);
  std::vector<char> buffer;
  buffer.reserve(gather_bytes + width);
  Dims index = Dims::filled(view.rank(), 0);
  const auto* data = static_cast<const char*>(view.data);
  for (int64_t left = view.numel(); left > 0; --left) {
    int64_t offset = 0;
    for (int d = 0; d < view.rank(); ++d) offset += index[d] * view.stride(d);
    const char* element = data + offset * int64_t(width);
    buffer.insert(buffer.end(), element, element + width);
    if (buffer.size() >= gather_bytes || left == 1) {
      file.write(buffer.data(), buffer.size());
      buffer.clear();
    }
    for (int d = view.rank() - 1; d >= 0 && ++index[d] == view.size(d); --d) index[d] = 0;
  }
}

}  // namespace

void write_safetensors(const std::string& path, const NamedViews& tensors,
                       const std::map<std::string, std::string>& metadata) {
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
    HostCopy host(entry->second);
    const TensorView& view = host.view();
    if (view.is_contiguous()) {
      file.write(view.data, size_t(view.numel()) * size_of(view.dtype));
    } else {
      write_strided(file, view);
    }
  }
  file.commit();
}

}  // namespace reprise::io
