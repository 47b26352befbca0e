// gzip by zlib.
#include <zlib.h>

#include <algorithm>

#include "reprise/core/error.h"
#include "reprise/io/gzip.h"

namespace reprise::io {
namespace {

constexpr int with_gzip_header = 16 + MAX_WBITS;
constexpr uint64_t largest_ratio = 1032;           // of deflate: 258 bytes by two bits
constexpr size_t largest_piece = size_t(1) << 30;  // zlib counts in 32 bits

class Inflater {
 public:
  Inflater(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {
    check(inflateInit2(&stream_, with_gzip_header) == Z_OK, "gzip: ", name, ": no memory to decompress it");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Fills `out` as far as the file goes; the bytes written.
  size_t read(char* out, size_t room) {
    size_t wanted = room;
    while (room > 0 && !ended_) {
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes_.data() + taken_));
      stream_.avail_in = uInt(std::min(bytes_.size() - taken_, largest_piece));
      stream_.next_out = reinterpret_cast<Bytef*>(out);
      stream_.avail_out = uInt(std::min(room, largest_piece));
      uInt in = stream_.avail_in, space = stream_.avail_out;
      int result = inflate(&stream_, Z_NO_FLUSH);
      taken_ += in - stream_.avail_in;
      out += space - stream_.avail_out;
      room -= space - stream_.avail_out;
      made_ += space - stream_.avail_out;
      check(result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR, "gzip: ", name_,
            ": damaged at byte ", taken_, " of ", bytes_.size(), ": ",
            stream_.msg ? stream_.msg : zError(result));
      check(result != Z_BUF_ERROR, "gzip: ", name_, ": ends early: ", bytes_.size(),
            " bytes are there, which hold ", made_, "; its last member is not complete");
      if (result == Z_STREAM_END) end_member();
    }
    return wanted - room;
  }

 private:
  void end_member() {
    std::string_view rest = bytes_.substr(taken_);
    ended_ = rest.empty();
    if (ended_) return;
    check(is_gzip(rest), "gzip: ", name_, ": wanted ", taken_, " bytes, ", bytes_.size(),
          " are there: what follows the end is not gzip");
    inflateReset(&stream_);
  }

  std::string_view bytes_;
  const std::string& name_;
  z_stream stream_{};
  size_t taken_ = 0, made_ = 0;
  bool ended_ = false;
};

}  // namespace

std::string gunzip(std::string_view bytes, const std::string& name, uint64_t most) {
  Inflater file(bytes, name);
  most = std::min(most, largest_ratio * bytes.size());
  std::string out;
  for (size_t size = 0, room = std::max<size_t>(4 * bytes.size(), 1);; room = 2 * size) {
    // One byte more than may be there tells that there are more.
    out.resize(size_t(std::min<uint64_t>(most + 1, room)));
    size_t got = file.read(out.data() + size, out.size() - size);
    size += got;
    check(size <= most, "gzip: ", name, ": holds more than ", most, " bytes, the most that make sense there");
    if (size < out.size()) {
      out.resize(size);
      return out;
    }
  }
}

std::string gunzip_front(std::string_view bytes, const std::string& name, size_t count) {
  std::string out(count, '\0');
  out.resize(Inflater(bytes, name).read(out.data(), count));
  return out;
}

std::string gzip(std::string_view bytes) {
  check(bytes.size() < largest_piece, "gzip: ", bytes.size(), " bytes are too many to write at once");
  z_stream stream{};
  check(deflateInit2(&stream, 6, Z_DEFLATED, with_gzip_header, 8, Z_DEFAULT_STRATEGY) == Z_OK,
        "gzip: no memory to compress");
  std::string out(deflateBound(&stream, uLong(bytes.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = uInt(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = uInt(out.size());
  int result = deflate(&stream, Z_FINISH);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  invariant(result == Z_STREAM_END, "gzip: deflateBound was too small: ", result);
  return out;
}

}  // namespace reprise::io
