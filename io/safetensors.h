// The safetensors format: named tensors in one file that is only ever data. Tensors are read straight into
// their memory, so reading costs no more than the tensors themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/core/tensor.h"
#include "reprise/io/file.h"
#include "reprise/io/safetensors_header.h"

namespace reprise::io {

/// An open file whose header was checked in full. Thread-safe.
class SafetensorsFile {
 public:
  /// Error with the path and the fact if the file breaks the format in any way, or has more than 4096 entries
  /// of metadata. Takes at most twice the bytes of the header.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }  ///< as given
  /// The header's `__metadata__`; empty if there is none.
  const std::map<std::string, std::string>& metadata() const { return header_.metadata(); }
  /// Where each tensor is, in the order of the data: size(), [] and loops.
  const SafetensorsHeader& tensors() const { return header_; }
  /// Nothing if there is none of that name.
  std::optional<SafetensorInfo> find(std::string_view name) const { return header_.find(name); }

  /// A new tensor on the CPU. Error if there is none of that name.
  Tensor read(std::string_view name) const;
  /// Reads into `into`: contiguous, on the CPU, of the same dtype and shape; Error otherwise.
  void read_into(std::string_view name, const TensorView& into) const;
  /// Reads the elements from `begin` on, in row-major order, into `into`: contiguous, on the CPU, of the same dtype; Error
  /// otherwise, or if there are not as many.
  void read_range_into(std::string_view name, int64_t begin, const TensorView& into) const;

 private:
  void read_elements(const SafetensorInfo& place, int64_t begin, const TensorView& into) const;
  SafetensorInfo info(std::string_view name) const;

  File file_;
  uint64_t data_start_ = 0;
  SafetensorsHeader header_;
};

/// What is written: a tensor, held until then, the view of one that the caller holds, or one that is made when it is written.
class KeptView : public TensorView {
 public:
  /// Holds the tensor, on any device.
  KeptView(Tensor tensor) : TensorView(tensor.view()), tensor_(std::move(tensor)) {}
  /// A view of memory that the caller holds until it is written.
  KeptView(const TensorView& view) : TensorView(view) {}
  KeptView(const TemporaryView&) = delete;  // its memory is gone before it is written; give the tensor
  /// A tensor of this form that `make` makes when its turn comes in the file, and that is freed before the next one.
  KeptView(const TensorView& form, std::function<Tensor()> make) : TensorView(form), make_(std::move(make)) {}

  /// The tensor, if it is made now; undefined if this is the view of one that is there.
  Tensor made() const { return make_ ? make_() : Tensor(); }

 private:
  Tensor tensor_;
  std::function<Tensor()> make_;
};
/// What a file is to hold: names, each of them once, and tensors.
using NamedViews = std::vector<std::pair<std::string, KeptView>>;

/// Writes `tensors` (on any device, with any strides) and `metadata` to `path`, atomically and durably. The
/// file depends on the contents alone: tensors are sorted by element size, widest first so that all are
/// aligned, then by name.
void write_safetensors(const std::string& path, const NamedViews& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace reprise::io
