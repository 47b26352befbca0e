// Reading safetensors. The header is hostile until it was checked: sizes are compared with the bytes that are
// there before anything is allocated.
#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <tuple>

#include "reprise/core/error.h"
#include "reprise/io/json.h"
#include "reprise/io/safetensors.h"
#include "reprise/io/safetensors_dtype.h"

namespace reprise::io {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

constexpr uint64_t length_bytes = 8;
constexpr uint64_t largest_header = 100'000'000;
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
  if (!dtype) json.fail_at(offset, "unknown dtype " + json_quote(name));
  return *dtype;
}

SafetensorInfo read_info(JsonReader& json, std::string name) {
  size_t start = json.offset();
  std::optional<DType> dtype;
  std::optional<Shape> shape;
  std::vector<int64_t> offsets;
  json.object([&](const std::string& key) {
    if (key == "dtype" && !dtype) {
      dtype = read_dtype(json);
    } else if (key == "shape" && !shape) {
      shape = read_shape(json);
    } else if (key == "data_offsets" && offsets.empty()) {
      json.array([&] {
        if (offsets.size() == 2) json.fail_at(json.offset(), "more than two data_offsets");
        offsets.push_back(size_value(json));
      });
    } else {
      json.fail_at(json.offset(), "duplicate or unknown key " + json_quote(key) + ", whose value stands");
    }
  });
  if (!dtype || !shape || offsets.size() != 2) {
    json.fail_at(start, "tensor " + json_quote(name) + " lacks dtype, shape or data_offsets");
  }
  return {std::move(name), *dtype, *shape, uint64_t(offsets[0]), uint64_t(offsets[1])};
}

// Elements times bytes; false if that or a stride would not fit. Zeros are left out of the product, since [0,
// 2^52, 2^52] holds nothing and yet has a stride of 2^104.
bool byte_size(const SafetensorInfo& info, uint64_t& bytes) {
  uint64_t product = size_of(info.dtype);
  bool is_empty = false;
  for (int64_t size : info.shape) {
    is_empty |= size == 0;
    if (__builtin_mul_overflow(product, uint64_t(std::max<int64_t>(size, 1)), &product)) return false;
  }
  bytes = is_empty ? 0 : product;
  return product <= uint64_t(INT64_MAX);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(File::open(path)) {
  uint64_t file_bytes = file_.size(), header_bytes = 0;
  check(file_bytes >= length_bytes, "safetensors: ", path, ": ", file_bytes,
        " bytes are too few for a header");
  file_.read_at(0, &header_bytes, length_bytes);
  check(header_bytes <= largest_header, "safetensors: ", path, ": a header of ", header_bytes,
        " bytes is longer than the format's limit of ", largest_header);
  check(header_bytes <= file_bytes - length_bytes, "safetensors: ", path, ": a header of ", header_bytes,
        " bytes does not fit in a file of ", file_bytes);
  std::string header(header_bytes, '\0');
  file_.read_at(length_bytes, header.data(), header.size());
  check(!header.empty() && header[0] == '{', "safetensors: ", path, ": the header does not start with '{'");
  data_start_ = length_bytes + header_bytes;
  parse_header(header);
  check_layout(file_bytes - data_start_);
}

void SafetensorsFile::parse_header(const std::string& header) {
  JsonReader json(header, path(), length_bytes);
  bool has_metadata = false;
  json.object([&](std::string key) {
    if (key != "__metadata__") {
      tensors_.push_back(read_info(json, std::move(key)));
      return;
    }
    if (has_metadata) json.fail_at(json.offset(), "duplicate __metadata__");
    has_metadata = true;
    json.object([&](const std::string& name) {
      size_t offset = json.offset();
      bool is_new = metadata_.emplace(name, json.string()).second;
      if (!is_new) json.fail_at(offset, "duplicate metadata " + json_quote(name));
    });
  });
  json.end();
}

void SafetensorsFile::check_layout(uint64_t data_bytes) {
  std::sort(tensors_.begin(), tensors_.end(), [](const SafetensorInfo& a, const SafetensorInfo& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t covered = 0;
  for (const SafetensorInfo& info : tensors_) {
    auto refuse = [&](const auto&... fact) {
      fail("safetensors: ", path(), ": tensor ", json_quote(info.name), ": ", fact...);
    };
    uint64_t bytes = 0;
    if (!byte_size(info, bytes)) refuse("shape ", info.shape, " overflows");
    if (info.end < info.begin) refuse("ends at ", info.end, ", before it begins at ", info.begin);
    if (info.end - info.begin != bytes) {
      refuse(info.dtype, " ", info.shape, " takes ", bytes, " bytes, data_offsets give ",
             info.end - info.begin);
    }
    if (info.begin > covered) refuse("bytes ", covered, " to ", info.begin, " before it belong to no tensor");
    if (info.begin < covered) refuse("begins at ", info.begin, ", inside the tensor that ends at ", covered);
    covered = info.end;
  }
  check(covered == data_bytes, "safetensors: ", path(), ": the tensors take ", covered,
        " bytes, the file holds ", data_bytes);
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  auto name = [&](uint32_t i) -> const std::string& { return tensors_[i].name; };
  std::sort(by_name_.begin(), by_name_.end(), [&](uint32_t a, uint32_t b) { return name(a) < name(b); });
  for (size_t i = 1; i < by_name_.size(); ++i) {
    check(name(by_name_[i]) != name(by_name_[i - 1]), "safetensors: ", path(), ": duplicate tensor ",
          json_quote(name(by_name_[i])));
  }
}

const SafetensorInfo* SafetensorsFile::find(std::string_view name) const {
  auto less = [&](uint32_t i, std::string_view wanted) { return tensors_[i].name < wanted; };
  auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name, less);
  return found != by_name_.end() && tensors_[*found].name == name ? &tensors_[*found] : nullptr;
}

Tensor SafetensorsFile::read(std::string_view name) const {
  const SafetensorInfo* info = find(name);
  check(info != nullptr, "safetensors: ", path(), ": no tensor ", json_quote(name));
  Tensor tensor = Tensor::empty(info->shape, info->dtype);
  read_into(name, tensor.view());
  return tensor;
}

void SafetensorsFile::read_into(std::string_view name, const TensorView& into) const {
  const SafetensorInfo* info = find(name);
  check(info != nullptr, "safetensors: ", path(), ": no tensor ", json_quote(name));
  auto where = [&] { return path() + ": tensor " + json_quote(name); };
  check(into.dtype == info->dtype && into.shape == info->shape, "safetensors: ", where(), " is ", info->dtype,
        " ", info->shape, ", wanted ", into.dtype, " ", into.shape);
  check(into.device == Device::cpu() && into.is_contiguous(), "safetensors: ", where(),
        ": can be read into contiguous memory of the CPU only");
  auto* bytes = static_cast<uint8_t*>(into.data);
  auto count = size_t(info->end - info->begin);
  file_.read_at(data_start_ + info->begin, bytes, count);
  if (info->dtype != DType::boolean) return;
  auto* bad = std::find_if(bytes, bytes + count, [](uint8_t byte) { return byte > 1; });
  if (bad == bytes + count) return;
  int value = *bad;
  std::fill(bytes, bytes + count, uint8_t(0));  // a bool of any other value is undefined behaviour
  fail("safetensors: ", where(), ": bool ", bad - bytes, " is ", value);
}

}  // namespace reprise::io
