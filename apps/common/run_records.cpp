// The files that a run writes down its measurements in.
#include "reprise/apps/common/run_records.h"

#include <optional>

#include "reprise/io/file.h"
#include "reprise/io/loss_plot.h"
#include "reprise/io/run_log.h"
#include "reprise/io/tensorboard.h"

namespace reprise::apps {

struct RunRecords::Files {
  std::string folder;
  io::RunLog log;
  io::TensorBoardWriter events;
};

RunRecords::RunRecords(const std::string& run_folder, int64_t step) {
  std::string log = run_folder + "/metrics.jsonl";
  std::optional<int64_t> resumed;
  if (step > 0) resumed = step;
  files_ =
      std::make_unique<Files>(Files{run_folder, step > 0 ? io::RunLog::resume(log, step) : io::RunLog(log),
                                    io::TensorBoardWriter(run_folder, resumed)});
}

RunRecords::~RunRecords() = default;

void RunRecords::add(int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  std::vector<io::Metric> metrics;
  for (const auto& [name, value] : values) {
    metrics.push_back({name, value});
    files_->events.scalar(name, step, value);
  }
  files_->log.write(step, metrics);
}

void RunRecords::add_sample(int64_t step, const std::string& text) {
  io::File file = io::File::append(files_->folder + "/samples.txt");
  file.write("--- step " + std::to_string(step) + " ---\n" + text + "\n\n");
  file.close();
}

bool RunRecords::has(int64_t step, const std::string& name) const {
  for (const io::RunRecord& record : io::read_run_log(files_->folder + "/metrics.jsonl"))
    for (const auto& [key, value] : record.metrics)
      if (record.step == step && key == name) return true;
  return false;
}

void RunRecords::plot() {
  io::write_loss_plot(files_->folder + "/loss.svg", files_->folder + "/metrics.jsonl");
}

}  // namespace reprise::apps
