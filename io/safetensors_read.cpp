// Reading safetensors: sizes are compared with the bytes that are there before anything is allocated.
#include <algorithm>
#include <bit>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"
#include "reprise/io/safetensors.h"

namespace reprise::io {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

constexpr uint64_t length_bytes = 8;
constexpr uint64_t largest_header = 100'000'000;

std::string read_header(const File& file) {
  const std::string& path = file.path();
  uint64_t file_bytes = file.size(), header_bytes = 0;
  check(file_bytes >= length_bytes, "safetensors: ", path, ": ", file_bytes,
        " bytes are too few for a header");
  file.read_at(0, &header_bytes, length_bytes);
  check(header_bytes <= largest_header, "safetensors: ", path, ": a header of ", header_bytes,
        " bytes is longer than the format's limit of ", largest_header);
  check(header_bytes <= file_bytes - length_bytes, "safetensors: ", path, ": a header of ", header_bytes,
        " bytes does not fit in a file of ", file_bytes);
  std::string header(header_bytes, '\0');
  file.read_at(length_bytes, header.data(), header.size());
  check(!header.empty() && header[0] == '{', "safetensors: ", path, ": the header does not start with '{'");
  return header;
}

SafetensorsHeader checked_header(const File& file, uint64_t& data_start) {
  std::string text = read_header(file);
  data_start = length_bytes + text.size();
  uint64_t file_bytes = file.size();  // again: less than before is an Error, not a huge number of bytes
  check(file_bytes >= data_start, "safetensors: ", file.path(), ": the file shrank while it was read");
  return {std::move(text), file.path(), length_bytes, file_bytes - data_start};
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path)
    : file_(File::open(path)), header_(checked_header(file_, data_start_)) {}

SafetensorInfo SafetensorsFile::info(std::string_view name) const {
  std::optional<SafetensorInfo> found = find(name);
  check(found.has_value(), "safetensors: ", path(), ": no tensor ", quote(name));
  return *std::move(found);
}

Tensor SafetensorsFile::read(std::string_view name) const {
  SafetensorInfo place = info(name);
  Tensor tensor = Tensor::empty(place.shape, place.dtype);
  read_into(name, tensor.view());
  return tensor;
}

void SafetensorsFile::read_into(std::string_view name, const TensorView& into) const {
  SafetensorInfo place = info(name);
  if (into.dtype != place.dtype || into.shape != place.shape) {
    fail("safetensors: ", path(), ": tensor ", quote(name), " is ", place.dtype, " ", place.shape,
         ", wanted ", into.dtype, " ", into.shape);
  }
  read_elements(place, 0, into);
}

void SafetensorsFile::read_range_into(std::string_view name, int64_t begin, const TensorView& into) const {
  SafetensorInfo place = info(name);
  const int64_t all = numel_of(place.shape), count = into.numel();
  if (into.dtype != place.dtype || begin < 0 || begin > all || count > all - begin) {
    fail("safetensors: ", path(), ": tensor ", quote(name), " is ", place.dtype, " ", place.shape,
         ", wanted ", count, " elements of ", into.dtype, " from ", begin, " on");
  }
  read_elements(place, begin, into);
}

void SafetensorsFile::read_elements(const SafetensorInfo& place, int64_t begin,
                                    const TensorView& into) const {
  auto where = [&] { return path() + ": tensor " + quote(place.name); };
  if (into.device != Device::cpu() || !into.is_contiguous()) {
    fail("safetensors: ", where(), ": can be read into contiguous memory of the CPU only");
  }
  auto* bytes = static_cast<uint8_t*>(into.data);
  const size_t element = size_of(place.dtype), count = size_t(into.numel()) * element;
  file_.read_at(data_start_ + place.begin + size_t(begin) * element, bytes, count);
  if (place.dtype != DType::boolean) return;
  auto* bad = std::find_if(bytes, bytes + count, [](uint8_t byte) { return byte > 1; });
  if (bad == bytes + count) return;
  int value = *bad;
  std::fill(bytes, bytes + count, uint8_t(0));  // a bool of any other value is undefined behaviour
  fail("safetensors: ", where(), ": bool ", bad - bytes, " is ", value);
}

}  // namespace reprise::io
