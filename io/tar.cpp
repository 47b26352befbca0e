#include "reprise/io/tar.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"

namespace reprise::io {
namespace {

using namespace std::string_view_literals;

constexpr uint64_t block_bytes = 512;
constexpr uint64_t most_extension_bytes = 1 << 20;  // of a long name or a pax header

using Block = std::array<char, block_bytes>;

// A field of text in a header: up to its first zero.
std::string_view text_field(const Block& block, size_t at, size_t bytes) {
  std::string_view text(block.data() + at, bytes);
  return text.substr(0, text.find('\0'));
}

uint64_t whole_blocks(uint64_t bytes) { return (bytes + block_bytes - 1) / block_bytes * block_bytes; }

// The sum of a header's bytes, with spaces where the sum itself stands.
uint64_t checksum(const Block& block) {
  uint64_t sum = 0;
  for (size_t i = 0; i < block_bytes; ++i) sum += i >= 148 && i < 156 ? uint8_t(' ') : uint8_t(block[i]);
  return sum;
}

std::optional<uint64_t> decimal(std::string_view text) {
  if (text.empty() || text.size() > 18) return {};
  uint64_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return {};
    value = 10 * value + uint64_t(c - '0');
  }
  return value;
}

class Reader {
 public:
  explicit Reader(const File& file) : file_(file), size_(file.size()) {}

  std::vector<TarEntry> read() {
    refuse_compressed();
    std::vector<TarEntry> entries;
    while (next_header()) {
      char type = block_[156];
      uint64_t bytes = pax_bytes_.value_or(number_field(124, 12));
      if (type == 'L' || type == 'x') bytes = number_field(124, 12);  // of the header itself
      if (type >= '1' && type <= '6') bytes = 0;  // links, devices and folders have no data
      uint64_t data = at_ + block_bytes;
      check(bytes <= size_ - data, "tar: ", file_.path(), ": byte ", at_, ": an entry of ", bytes,
            " bytes reaches over the end at ", size_);
      if (type == 'L')
        long_name_ = extension(data, bytes);
      else if (type == 'x')
        read_pax(extension(data, bytes));
      else if (type != 'g')
        add_entry(entries, type, data, bytes);
      at_ = data + whole_blocks(bytes);
    }
    return entries;
  }

 private:
  [[noreturn]] void fail_here(std::string_view fact) const {
    fail("tar: ", file_.path(), ": byte ", at_, ": ", fact);
  }

  void refuse_compressed() const {
    char front[6] = {};
    file_.read_at(0, front, size_t(std::min<uint64_t>(size_, sizeof front)));
    for (std::string_view magic : {"\x1f\x8b"sv, "BZh"sv,
                                   "\xfd"
                                   "7zXZ"sv,
                                   "\x28\xb5\x2f\xfd"sv})
      check(!std::string_view(front, sizeof front).starts_with(magic), "tar: ", file_.path(),
            ": is compressed: unpack it, so that its files can be read in any order");
  }

  // Reads the header at `at_`: whether there is one, not the end.
  bool next_header() {
    if (at_ >= size_ || size_ - at_ < block_bytes)
      fail_here("the archive is cut off: its end mark is missing");
    file_.read_at(at_, block_.data(), block_bytes);
    if (std::all_of(block_.begin(), block_.end(), [](char c) { return c == 0; })) return false;
    if (number_field(148, 8) != checksum(block_)) fail_here("is no header: its checksum is wrong");
    return true;
  }

  // Octal digits between spaces, or with the first bit set a number of base 256.
  uint64_t number_field(size_t at, size_t bytes) const {
    uint64_t value = 0;
    if (uint8_t(block_[at]) == 0x80) {
      for (size_t i = at + 1; i < at + bytes; ++i) {
        if (value >> 55 != 0) fail_here("a number of its header is too large");
        value = value << 8 | uint8_t(block_[i]);
      }
      return value;
    }
    std::string_view text = text_field(block_, at, bytes);
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    for (char c : text) {
      if (c < '0' || c > '7') fail_here("a number of its header is not octal");
      value = value << 3 | uint64_t(c - '0');
    }
    return value;
  }

  std::string extension(uint64_t data, uint64_t bytes) const {
    if (bytes > most_extension_bytes) fail_here("its extended header has more than a MiB");
    std::string text(bytes, '\0');
    file_.read_at(data, text.data(), text.size());
    return text;
  }

  // Records "LENGTH KEY=VALUE\n", whose length counts all of them.
  void read_pax(std::string_view text) {
    while (!text.empty()) {
      size_t space = std::min(text.find(' '), text.size());
      uint64_t length = decimal(text.substr(0, space)).value_or(0);
      if (length <= space + 1 || length > text.size() || text[length - 1] != '\n')
        fail_here("its pax header is damaged");
      std::string_view record = text.substr(space + 1, length - space - 2);
      text.remove_prefix(length);
      size_t equals = std::min(record.find('='), record.size());
      std::string_view key = record.substr(0, equals),
                       value = record.substr(std::min(equals + 1, record.size()));
      if (key == "path") long_name_ = value;
      if (key == "size") pax_bytes_ = decimal(value);
      if (key == "size" && !pax_bytes_) fail_here("its pax header has a size that is no number");
      if (key.starts_with("GNU.sparse")) fail_here("is a sparse file, which is not read");
    }
  }

  std::string entry_name() const {
    if (!long_name_.empty()) return std::string(long_name_.c_str());  // GNU's ends with a zero
    std::string name(text_field(block_, 0, 100));
    bool has_prefix = text_field(block_, 257, 6) == "ustar";
    std::string prefix(has_prefix ? text_field(block_, 345, 155) : ""sv);
    return prefix.empty() ? name : prefix + "/" + name;
  }

  void add_entry(std::vector<TarEntry>& entries, char type, uint64_t data, uint64_t bytes) {
    std::string name = entry_name();
    long_name_.clear();
    pax_bytes_.reset();
    if (type == 'S') fail_here("is a sparse file, which is not read");
    if (type != '0' && type != '\0' && type != '7') return;  // '7': contiguous, which no system tells apart
    while (name.starts_with("./")) name.erase(0, 2);
    bool leaves = name.starts_with('/') || ("/" + name + "/").find("/../") != std::string::npos;
    check(!leaves, "tar: ", file_.path(), ": byte ", at_, ": the name ", quote(name),
          " leads out of the archive");
    check(!name.empty(), "tar: ", file_.path(), ": byte ", at_, ": a file without a name");
    if (!name.ends_with('/'))
      entries.push_back({std::move(name), data, bytes});  // old archives mark folders so
  }

  const File& file_;
  uint64_t size_, at_ = 0;
  Block block_{};
  std::string long_name_{};              // of the next entry
  std::optional<uint64_t> pax_bytes_{};  // of the next entry
};

}  // namespace

std::vector<TarEntry> read_tar(const File& file) { return Reader(file).read(); }

void TarWriter::add(const std::string& name, std::string_view contents) {
  check(!name.empty() && name.size() <= 100, "tar: the name ", quote(name), " has ", name.size(),
        " bytes, where 1 to 100 have room");
  check(contents.size() < uint64_t(1) << 33, "tar: ", quote(name), ": ", contents.size(),
        " bytes are too many");
  Block block{};
  std::copy(name.begin(), name.end(), block.begin());
  auto put = [&](size_t at, const char* text) { std::memcpy(block.data() + at, text, std::strlen(text)); };
  char octal[16];
  std::snprintf(octal, sizeof octal, "%011llo", static_cast<unsigned long long>(contents.size()));
  put(100, "0000644"), put(108, "0000000"), put(116, "0000000");  // mode, owner, group
  put(124, octal), put(136, "00000000000");                       // size, time
  block[156] = '0';
  put(257, "ustar"), put(263, "00");
  std::snprintf(octal, sizeof octal, "%06llo", static_cast<unsigned long long>(checksum(block)));
  put(148, octal), block[155] = ' ';
  write({block.data(), block.size()});
  write(contents);
  write(std::string(whole_blocks(contents.size()) - contents.size(), '\0'));
}

void TarWriter::commit() {
  write(std::string(2 * block_bytes, '\0'));
  file_.commit();
}

void TarWriter::write(std::string_view part) {
  file_.write(part);
  bytes_ += part.size();
}

}  // namespace reprise::io
