// The header of a safetensors file, checked in full. It is hostile until then, and may be all of the file: it
// stays the text that it is, beside a table of 24 bytes per tensor (the shortest entry of a header takes 52).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/core/dtype.h"
#include "reprise/core/shape.h"

namespace reprise::io {

class JsonReader;

/// Entries of metadata: a map's nodes cost more than their text, and real files have a dozen.
inline constexpr size_t most_safetensors_metadata = 4096;

/// A tensor's place in a file.
struct SafetensorInfo {
  std::string name;  ///< as the header has it, decoded
  DType dtype;       ///< of its elements
  Shape shape;       ///< its sizes
  uint64_t begin;    ///< its first byte, from the start of the data
  uint64_t end;      ///< the byte behind its last
};

/// What a file says of its tensors, in the order of their data: `for (const SafetensorInfo& info : header)`.
class SafetensorsHeader {
 public:
  /// `text` is the JSON, which starts at byte `base` of the file `path`; `data_bytes` follow it. Error with
  /// the path and the fact if anything breaks the format.
  SafetensorsHeader(std::string text, const std::string& path, size_t base, uint64_t data_bytes);

  /// The entries of `__metadata__`; empty if there is none.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  size_t size() const { return entries_.size(); }  ///< how many tensors
  bool empty() const { return entries_.empty(); }  ///< whether there are none
  SafetensorInfo operator[](size_t index) const;   ///< in the order of the data
  class Iterator;
  Iterator begin() const;                                           ///< at the first tensor
  Iterator end() const;                                             ///< behind the last
  std::optional<SafetensorInfo> find(std::string_view name) const;  ///< nothing if there is none of that name

 private:
  struct Entry {
    uint64_t begin, end;
    uint32_t value;       // where its JSON object starts in text_; the decoded name ends there
    uint32_t name_bytes;  // of that name
  };

  void parse(const std::string& path, size_t base);
  void read_metadata(JsonReader& json);
  void check_layout(const std::string& path, uint64_t data_bytes);
  void sort_names(const std::string& path);
  std::string_view name(const Entry& entry) const;

  std::string text_;
  std::map<std::string, std::string> metadata_;
  std::vector<Entry> entries_;     // in the order of the data
  std::vector<uint32_t> by_name_;  // positions in entries_, sorted by name
};

/// Makes each SafetensorInfo as a loop gets to it.
class SafetensorsHeader::Iterator {
 public:
  using value_type = SafetensorInfo;       ///< for the standard library
  using difference_type = std::ptrdiff_t;  ///< for the standard library
  /// At a tensor of `header`, which outlives it.
  Iterator(const SafetensorsHeader& header, size_t index) : header_(&header), index_(index) {}
  SafetensorInfo operator*() const { return (*header_)[index_]; }  ///< the tensor that it is at
  Iterator& operator++() { return ++index_, *this; }               ///< goes on to the next
  bool operator==(const Iterator& other) const { return index_ == other.index_; }

 private:
  const SafetensorsHeader* header_;
  size_t index_;
};

inline SafetensorsHeader::Iterator SafetensorsHeader::begin() const { return {*this, 0}; }
inline SafetensorsHeader::Iterator SafetensorsHeader::end() const { return {*this, size()}; }

}  // namespace reprise::io
