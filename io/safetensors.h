// The safetensors format: named tensors in one file that is only ever data. Tensors are read straight into
// their memory, so reading costs no more than the tensors themselves.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/core/tensor.h"
#include "reprise/io/file.h"

namespace reprise::io {

/// A tensor's place in a file.
struct SafetensorInfo {
  std::string name;
  DType dtype;
  Shape shape;
  uint64_t begin, end;  ///< bytes, from the start of the data
};

/// An open file whose header was checked in full. Thread-safe.
class SafetensorsFile {
 public:
  /// Error with the path and the fact if the file breaks the format in any way.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::vector<SafetensorInfo>& tensors() const { return tensors_; }  ///< in the order of the data
  const SafetensorInfo* find(std::string_view name) const;                 ///< null if there is none

  /// A new tensor on the CPU. Error if there is none of that name.
  Tensor read(std::string_view name) const;
  /// Reads into `into`: contiguous, on the CPU, of the same dtype and shape; Error otherwise.
  void read_into(std::string_view name, const TensorView& into) const;

 private:
  void parse_header(const std::string& header);
  void check_layout(uint64_t data_bytes);

  File file_;
  uint64_t data_start_ = 0;
  std::map<std::string, std::string> metadata_;
  std::vector<SafetensorInfo> tensors_;
  std::vector<uint32_t> by_name_;  // positions in tensors_, sorted by name
};

using NamedViews = std::vector<std::pair<std::string, TensorView>>;

/// Writes `tensors` (on any device, with any strides) and `metadata` to `path`, atomically and durably. The
/// file depends on the contents alone: tensors are sorted by element size, widest first so that all are
/// aligned, then by name.
void write_safetensors(const std::string& path, const NamedViews& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace reprise::io
