// What a run writes down: metrics.jsonl, TensorBoard events, loss.svg and samples.txt in its folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::apps {

class RunRecords {
 public:
  /// Opens the records of a run folder; on resume, what was recorded after `step` is dropped.
  RunRecords(const std::string& run_folder, int64_t step);
  ~RunRecords();

  void add(int64_t step, const std::vector<std::pair<std::string, double>>& values);
  void add_sample(int64_t step, const std::string& text);
  /// Whether a value of this name was recorded for the step.
  bool has(int64_t step, const std::string& name) const;
  void plot();  ///< draws loss.svg from everything recorded

 private:
  struct Files;
  std::unique_ptr<Files> files_;
};

}  // namespace reprise::apps
