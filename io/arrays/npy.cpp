#include "reprise/io/arrays/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "reprise/core/error.h"
#include "reprise/core/no_compute.h"
#include "reprise/core/number_in.h"
#include "reprise/core/quote.h"
#include "reprise/core/transfer.h"
#include "reprise/io/arrays/npy_stream.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/elements.h"

namespace reprise::io {
namespace {

static_assert(std::endian::native == std::endian::little, "what is written here is little-endian");

constexpr std::string_view magic("\x93NUMPY", 6);
constexpr uint64_t largest_header = 1 << 16;
constexpr size_t alignment = 64;  // of the data in the file

constexpr std::array<std::pair<DType, std::string_view>, 7> dtypes = {{{DType::f64, "<f8"},
                                                                       {DType::f32, "<f4"},
                                                                       {DType::f16, "<f2"},
                                                                       {DType::i64, "<i8"},
                                                                       {DType::i32, "<i4"},
                                                                       {DType::u8, "|u1"},
                                                                       {DType::boolean, "|b1"}}};

struct NpyHeader {
  std::optional<DType> dtype{};
  std::optional<bool> is_fortran{};
  std::optional<Shape> shape{};
};

// Reads the header's dict, a literal of Python with three keys.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& path) : rest_(text), path_(path) {}

  NpyHeader read() {
    expect('{');
    while (!accept('}')) {
      read_entry();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    require(rest_.empty(), "goes on behind its dict");
    require(header_.dtype && header_.is_fortran && header_.shape,
            "needs 'descr', 'fortran_order' and 'shape'");
    return header_;
  }

 private:
  template <class... Parts>
  void require(bool holds, const Parts&... parts) const {
    check(holds, "npy: ", path_, ": its header ", parts...);
  }

  void skip_spaces() {
    const size_t begin = std::min(rest_.find_first_not_of(" \t\n"), rest_.size());
    rest_.remove_prefix(begin);
  }
  bool accept(char c) {
    skip_spaces();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) { require(accept(c), "has no '", c, "' before ", quote(rest_.substr(0, 20))); }

  std::string_view word(std::string_view ends) {
    skip_spaces();
    const std::string_view found = rest_.substr(0, rest_.find_first_of(ends));
    rest_.remove_prefix(found.size());
    return found;
  }
  std::string_view text() {
    skip_spaces();
    const char quotation = accept('"') ? '"' : (expect('\''), '\'');
    const std::string_view found = word(std::string_view(&quotation, 1));
    expect(quotation);
    return found;
  }

  void read_entry() {
    const std::string_view key = text();
    expect(':');
    if (key == "descr")
      header_.dtype = read_dtype();
    else if (key == "fortran_order")
      header_.is_fortran = read_bool();
    else if (key == "shape")
      header_.shape = read_shape();
    else
      require(false, "has an unknown key ", quote(key));
  }

  DType read_dtype() {
    skip_spaces();
    require(!rest_.starts_with('['), "says that elements are structs, which tensors have not");
    const std::string_view name = text();
    for (const auto& [dtype, own] : dtypes)
      if (name == own || (own[0] == '|' && name.substr(1) == own.substr(1))) return dtype;
    require(!name.ends_with('O'),
            "says that elements are objects: pickles can run code and are not read here");
    require(
        false, "says that elements are ", quote(name),
        "; float64, float32, float16, int64, int32, uint8 and bool are read, little-endian (numpy: astype)");
    return {};
  }

  bool read_bool() {
    const std::string_view value = word(",} ");
    require(value == "True" || value == "False", "has fortran_order ", quote(value));
    return value == "True";
  }

  Shape read_shape() {
    Shape shape;
    expect('(');
    for (uint64_t count = 1; !accept(')');) {
      const std::string_view digits = word(",) ");
      const auto size = number_in<int64_t>(digits);
      require(size && *size >= 0, "has a size ", quote(digits));
      require(shape.size() < Shape::max_rank, "has more than ", Shape::max_rank, " dimensions");
      require(!__builtin_mul_overflow(count, std::max<uint64_t>(1, uint64_t(*size)), &count) &&
                  count <= uint64_t(INT64_MAX) / 8,
              "has sizes that multiply to more bytes than there can be");
      shape.push_back(*size);
      if (accept(',')) continue;
      expect(')');
      break;
    }
    return shape;
  }

  std::string_view rest_;
  const std::string& path_;
  NpyHeader header_;
};

// Its header, behind which the stream is then; `bytes_before`: how many that took.
NpyHeader header_of(const ByteStream& stream, uint64_t& bytes_before) {
  const std::string& path = stream.name;
  char front[8];
  check(stream.size >= sizeof(front) + 2, "npy: ", path, ": ", stream.size,
        " bytes are too few for a header");
  stream.read(front, sizeof(front));
  check(std::string_view(front, magic.size()) == magic, "npy: ", path,
        ": does not start as numpy.save's files do");
  const int version = front[6];
  check(version >= 1 && version <= 3, "npy: ", path, ": has version ", version, "; 1 to 3 are read");
  const size_t length_bytes = version == 1 ? 2 : 4;
  uint32_t length = 0;
  stream.read(&length, length_bytes);
  bytes_before = sizeof(front) + length_bytes + length;
  check(length <= largest_header && bytes_before <= stream.size, "npy: ", path, ": a header of ", length,
        " bytes does not fit in a file of ", stream.size);
  std::string text(length, '\0');
  stream.read(text.data(), text.size());
  return HeaderReader(text, path).read();
}

void check_bools(const std::string& path, const Tensor& x) {
  if (x.dtype() != DType::boolean) return;
  auto* begin = static_cast<uint8_t*>(x.view().data);
  auto* bad = std::find_if(begin, begin + x.numel(), [](uint8_t byte) { return byte > 1; });
  if (bad == begin + x.numel()) return;
  const int value = *bad;
  std::fill(begin, begin + x.numel(), uint8_t(0));  // a bool of any other value is undefined behaviour
  fail("npy: ", path, ": bool ", bad - begin, " is ", value);
}

Shape reversed(const Shape& shape) {
  Shape out;
  for (int d = shape.size() - 1; d >= 0; --d) out.push_back(shape[d]);
  return out;
}

// The elements of `x`, of reversed shape, with the first dimension next to each other.
Tensor from_fortran(const Tensor& x, const Shape& shape) {
  Dims order;
  for (int d = shape.size() - 1; d >= 0; --d) order.push_back(d);
  Tensor out = Tensor::empty(shape, x.dtype());
  auto* next = static_cast<char*>(out.view().data);
  for_each_piece(permute(x.view(), order), [&](const void* data, size_t bytes) {
    if (bytes > 0) std::memcpy(next, data, bytes);
    next += bytes;
  });
  return out;
}

std::string header_text(std::string_view dtype, const Shape& shape) {
  std::string sizes;
  for (int d = 0; d < shape.size(); ++d) sizes += (d > 0 ? " " : "") + std::to_string(shape[d]) + ",";
  if (shape.size() > 1) sizes.pop_back();
  std::string text =
      "{'descr': '" + std::string(dtype) + "', 'fortran_order': False, 'shape': (" + sizes + "), }";
  const size_t before = magic.size() + 4;  // with version and length
  text.resize((before + text.size() + 1 + alignment - 1) / alignment * alignment - before - 1, ' ');
  return text + "\n";
}

}  // namespace

Tensor read_npy(const ByteStream& stream) {
  uint64_t before = 0;
  const NpyHeader header = header_of(stream, before);
  const Shape& shape = *header.shape;
  const uint64_t bytes = uint64_t(numel_of(shape)) * size_of(*header.dtype), there = stream.size - before;
  check(there == bytes, "npy: ", stream.name, ": its shape ", shape, " needs ", bytes, " bytes, ", there,
        " are there");
  const Tensor read = Tensor::empty(*header.is_fortran ? reversed(shape) : shape, *header.dtype);
  stream.read(read.view().data, bytes);
  check_bools(stream.name, read);
  return *header.is_fortran ? from_fortran(read, shape) : read;
}

Tensor read_npy(const std::string& path) {
  const File file = File::open(path);
  uint64_t at = 0;
  return read_npy(ByteStream{path, file.size(), [&](void* data, size_t bytes) {
                               file.read_at(at, data, bytes);
                               at += bytes;
                             }});
}

std::string npy_front(const std::string& path, const Tensor& x) {
  check(!NoCompute::is_on(), "npy: ", path, ": within a NoCompute tensors have no values to write");
  const auto* found =
      std::find_if(dtypes.begin(), dtypes.end(), [&](const auto& own) { return own.first == x.dtype(); });
  check(found != dtypes.end(), "npy: ", path, ": NumPy has no ", x.dtype(),
        "; x.to(DType::f32) keeps its values");
  const std::string header = header_text(found->second, x.shape());
  const uint16_t length = uint16_t(header.size());
  std::string front(magic);
  front.append("\x01\0", 2);
  front.append(reinterpret_cast<const char*>(&length), sizeof(length));
  return front + header;
}

void write_npy(const std::string& path, const Tensor& x) {
  const std::string front = npy_front(path, x);
  AtomicFile file(path);
  file.write(front);
  const HostCopy host(x.view());
  for_each_piece(host.view(), [&](const void* data, size_t bytes) { file.write(data, bytes); });
  file.commit();
}

}  // namespace reprise::io
