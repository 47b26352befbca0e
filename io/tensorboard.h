// TensorBoard event files: scalars that `tensorboard --logdir FOLDER` plots.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/io/file.h"

namespace reprise::io {

/// Writes one events file. Each scalar is one write, so a crash loses nothing that was written.
class TensorBoardWriter {
 public:
  /// A new file in `folder`, which must be there. `resume_step` makes TensorBoard forget what earlier files
  /// of the folder hold after that step.
  explicit TensorBoardWriter(const std::string& folder, std::optional<int64_t> resume_step = {});

  /// `wall_time` in seconds since 1970; now, if none is given.
  void scalar(std::string_view tag, int64_t step, double value, std::optional<double> wall_time = {});
  /// Syncs and closes; Error if what was written did not reach the disk.
  void close();
  const std::string& path() const { return file_.path(); }

 private:
  File file_;
};

}  // namespace reprise::io
