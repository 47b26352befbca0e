// gzip (RFC 1952) in memory: what data sets are packed with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::io {

/// Whether `bytes` start as a gzip file does.
inline bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

/// The file that `bytes`, a whole gzip file of one or more members, hold; `name` stands in messages. Error if they are
/// damaged, end early, go on with something else, or hold more than `most` bytes: no more than that, or than deflate can
/// make of them, is ever allocated.
std::string gunzip(std::string_view bytes, const std::string& name, uint64_t most);

/// The first `count` bytes of that file, fewer if it has fewer: what lies behind them is not looked at.
std::string gunzip_front(std::string_view bytes, const std::string& name, size_t count);

/// `bytes` as a gzip file, without a name or a time: the same bytes give the same file.
std::string gzip(std::string_view bytes);

}  // namespace reprise::io
