// Reading the header. Names are decoded over their own text, which is never shorter; shapes and types are
// read again from theirs when they are asked for.
#include "reprise/io/safetensors_header.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"
#include "reprise/io/json.h"
#include "reprise/io/safetensors_dtype.h"

namespace reprise::io {
namespace {

constexpr int64_t largest_safe_integer = (int64_t(1) << 53) - 1;  // what every JSON reader keeps exactly

int64_t size_value(JsonReader& json) {
  size_t offset = json.offset();
  int64_t value = json.integer();
  if (value < 0 || value > largest_safe_integer) {
    json.fail_at(offset, detail::join("integer ", value, " is not in [0, 2^53)"));
  }
  return value;
}

Shape read_shape(JsonReader& json) {
  Shape shape;
  json.array([&] {
    if (shape.size() == Shape::max_rank) json.fail_at(json.offset(), "more than 8 dimensions");
    shape.push_back(size_value(json));
  });
  return shape;
}

DType read_dtype(JsonReader& json) {
  size_t offset = json.offset();
  std::string name = json.string();
  std::optional<DType> dtype = safetensors_dtype(name);
  if (!dtype) json.fail_at(offset, "unknown dtype " + quote(name));
  return *dtype;
}

SafetensorInfo read_info(JsonReader& json, std::string name) {
  size_t start = json.offset(), offsets = 0;
  std::optional<DType> dtype;
  std::optional<Shape> shape;
  uint64_t bounds[2] = {};
  json.object([&](const std::string& key) {
    if (key == "dtype" && !dtype) {
      dtype = read_dtype(json);
    } else if (key == "shape" && !shape) {
      shape = read_shape(json);
    } else if (key == "data_offsets" && offsets == 0) {
      json.array([&] {
        if (offsets == 2) json.fail_at(json.offset(), "more than two data_offsets");
        bounds[offsets++] = uint64_t(size_value(json));
      });
    } else {
      json.fail_at(json.offset(), "duplicate or unknown key " + quote(key) + ", whose value stands");
    }
  });
  if (!dtype || !shape || offsets != 2) {
    json.fail_at(start, "tensor " + quote(name) + " lacks dtype, shape or data_offsets");
  }
  return {std::move(name), *dtype, *shape, bounds[0], bounds[1]};
}

// Elements times bytes; nothing if that or a stride would not fit. Zeros are left out of the product, since
// [0, 2^52, 2^52] holds nothing and yet has a stride of 2^104.
std::optional<uint64_t> byte_size(const SafetensorInfo& info) {
  uint64_t product = size_of(info.dtype);
  bool is_empty = false;
  for (int64_t size : info.shape) {
    is_empty |= size == 0;
    if (__builtin_mul_overflow(product, uint64_t(std::max<int64_t>(size, 1)), &product)) return {};
  }
  if (product > uint64_t(INT64_MAX)) return {};
  return is_empty ? 0 : product;
}

void check_size(const SafetensorInfo& info, const std::string& path) {
  auto refuse = [&](const auto&... fact) {
    fail("safetensors: ", path, ": tensor ", quote(info.name), ": ", fact...);
  };
  std::optional<uint64_t> bytes = byte_size(info);
  if (!bytes) refuse("shape ", info.shape, " overflows");
  if (info.end < info.begin) refuse("ends at ", info.end, ", before it begins at ", info.begin);
  if (info.end - info.begin != *bytes) {
    refuse(info.dtype, " ", info.shape, " takes ", *bytes, " bytes, data_offsets give ",
           info.end - info.begin);
  }
}

constexpr std::string_view metadata_key = "__metadata__";

size_t count_tensors(std::string_view text, const std::string& path, size_t base) {
  JsonReader json(text, path, base);
  size_t count = 0;
  json.object([&](const std::string& key) {
    count += key != metadata_key;
    json.skip();
  });
  json.end();
  return count;
}

}  // namespace

SafetensorsHeader::SafetensorsHeader(std::string text, const std::string& path, size_t base,
                                     uint64_t data_bytes)
    : text_(std::move(text)) {
  entries_.reserve(count_tensors(text_, path, base));
  parse(path, base);
  check_layout(path, data_bytes);
  sort_names(path);
}

void SafetensorsHeader::parse(const std::string& path, size_t base) {
  JsonReader json(text_, path, base);
  bool has_metadata = false;
  json.object([&](std::string key) {
    size_t value = json.offset() - base;
    if (key == metadata_key) {
      if (has_metadata) json.fail_at(json.offset(), "duplicate __metadata__");
      has_metadata = true;
      return read_metadata(json);
    }
    auto name_bytes = uint32_t(key.size());
    key.copy(text_.data() + value - key.size(), key.size());
    SafetensorInfo info = read_info(json, std::move(key));
    check_size(info, path);
    entries_.push_back({info.begin, info.end, uint32_t(value), name_bytes});
  });
}

void SafetensorsHeader::read_metadata(JsonReader& json) {
  json.object([&](std::string name) {
    size_t offset = json.offset();
    if (metadata_.size() == most_safetensors_metadata)
      json.fail_at(offset, "more than 4096 entries of metadata");
    auto [entry, is_new] = metadata_.try_emplace(std::move(name));
    if (!is_new) json.fail_at(offset, "duplicate metadata " + quote(entry->first));
    entry->second = json.string();
  });
}

void SafetensorsHeader::check_layout(const std::string& path, uint64_t data_bytes) {
  std::sort(entries_.begin(), entries_.end(), [&](const Entry& a, const Entry& b) {
    return std::tuple(a.begin, a.end, name(a)) < std::tuple(b.begin, b.end, name(b));
  });
  uint64_t covered = 0;
  for (const Entry& entry : entries_) {
    auto refuse = [&](const auto&... fact) {
      fail("safetensors: ", path, ": tensor ", quote(name(entry)), ": ", fact...);
    };
    if (entry.begin > covered) {
      refuse("bytes ", covered, " to ", entry.begin, " before it belong to no tensor");
    }
    if (entry.begin < covered)
      refuse("begins at ", entry.begin, ", inside the tensor that ends at ", covered);
    covered = entry.end;
  }
  check(covered == data_bytes, "safetensors: ", path, ": the tensors take ", covered,
        " bytes, the file holds ", data_bytes);
}

void SafetensorsHeader::sort_names(const std::string& path) {
  by_name_.resize(entries_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  auto less = [&](uint32_t a, uint32_t b) { return name(entries_[a]) < name(entries_[b]); };
  std::sort(by_name_.begin(), by_name_.end(), less);
  auto same = [&](uint32_t a, uint32_t b) { return name(entries_[a]) == name(entries_[b]); };
  auto twice = std::adjacent_find(by_name_.begin(), by_name_.end(), same);
  if (twice != by_name_.end()) {
    fail("safetensors: ", path, ": duplicate tensor ", quote(name(entries_[*twice])));
  }
}

std::string_view SafetensorsHeader::name(const Entry& entry) const {
  return std::string_view(text_).substr(entry.value - entry.name_bytes, entry.name_bytes);
}

SafetensorInfo SafetensorsHeader::operator[](size_t index) const {
  const Entry& entry = entries_[index];
  JsonReader json(std::string_view(text_).substr(entry.value), "");  // which was read once without an Error
  return read_info(json, std::string(name(entry)));
}

std::optional<SafetensorInfo> SafetensorsHeader::find(std::string_view wanted) const {
  auto less = [&](uint32_t i, std::string_view other) { return name(entries_[i]) < other; };
  auto found = std::lower_bound(by_name_.begin(), by_name_.end(), wanted, less);
  if (found == by_name_.end() || name(entries_[*found]) != wanted) return {};
  return (*this)[*found];
}

}  // namespace reprise::io
