// What a run writes down: metrics.jsonl, TensorBoard events, loss.svg and samples.txt in its folder. Training
// never ends because one of them cannot be written: what failed is told once, kept, and tried again with the
// next record.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::train {

class RunRecords {
 public:
  using Tell = std::function<void(const std::string&)>;
  using Values = std::vector<std::pair<std::string, double>>;

  /// The records of a run folder. `resumed`: what was recorded after `step` is dropped. `tell` is given what
  /// cannot be written, and why.
  RunRecords(const std::string& run_folder, int64_t step, bool resumed, Tell tell);
  ~RunRecords();

  void add(int64_t step, const Values& values);
  void add_sample(int64_t step, const std::string& text);
  /// Whether a value of this name was recorded for the step; true if that cannot be told.
  bool has(int64_t step, const std::string& name) const;
  void plot();   ///< draws loss.svg from everything recorded
  void close();  ///< writes what is still held back, waits for the disk, and tells what is lost

 private:
  struct Files;
  std::unique_ptr<Files> files_;
};

}  // namespace reprise::train
