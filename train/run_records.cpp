// The files that a run writes down its measurements in.
#include "reprise/train/run_records.h"

#include <optional>

#include "reprise/io/file.h"
#include "reprise/io/run_log.h"
#include "reprise/io/tensorboard.h"
#include "reprise/plot/loss_plot.h"
#include "reprise/train/record_queue.h"

namespace reprise::train {
namespace {

// A record is a few hundred bytes, a sample a few thousand: at most some megabytes wait.
constexpr size_t most_records = 20000, most_samples = 1000;

}  // namespace

struct RunRecords::Files {
  struct Record {
    int64_t step;
    RunRecords::Values values;
  };

  Files(std::string run_folder, int64_t step, bool resumed, const Tell& tell_)
      : tell(tell_),
        folder(std::move(run_folder)),
        first_step(step),
        is_resumed(resumed),
        metrics(folder + "/metrics.jsonl", most_records, tell),
        scalars(folder + "/events.out.tfevents", most_records, tell),
        samples(folder + "/samples.txt", most_samples, tell),
        picture(folder + "/loss.svg", 1, tell) {}

  void write_metrics() {
    metrics.flush([&](const Record& record) {
      open_log();
      std::vector<io::Metric> values;
      for (const auto& [name, value] : record.values) values.push_back({name, value});
      log->write(record.step, values);
    });
  }

  void open_log() {
    if (log) return;
    std::string path = folder + "/metrics.jsonl";
    log.emplace(is_resumed ? io::RunLog::resume(path, first_step) : io::RunLog(path));
    if (log->unreadable() > 0)
      tell(path + ": " + std::to_string(log->unreadable()) + " lines cannot be read; they stay as they are");
  }

  void write_scalars() {
    scalars.flush([&](Record& record) {
      if (!events) events.emplace(folder, is_resumed ? std::optional(first_step) : std::nullopt);
      for (; !record.values.empty(); record.values.pop_back()) {
        const auto& [name, value] = record.values.back();
        events->scalar(name, record.step, value);
      }
    });
  }

  void write_samples() {
    samples.flush([&](const std::string& text) {
      io::File file = io::File::append(folder + "/samples.txt");
      file.write_whole(text);
      file.close();
    });
  }

  Tell tell;
  std::string folder;
  int64_t first_step;
  bool is_resumed;
  std::optional<io::RunLog> log;
  std::optional<io::TensorBoardWriter> events;
  RecordQueue<Record> metrics, scalars;
  RecordQueue<std::string> samples;
  RecordQueue<int> picture;
};

RunRecords::RunRecords(const std::string& run_folder, int64_t step, bool resumed, Tell tell)
    : files_(std::make_unique<Files>(run_folder, step, resumed, tell)) {
  // What was recorded after `step` goes now: until the first record it would look as if it counted.
  files_->metrics.attempt([&] { files_->open_log(); });
}

RunRecords::~RunRecords() = default;

void RunRecords::add(int64_t step, const Values& values) {
  files_->metrics.push({step, values});
  files_->scalars.push({step, {values.rbegin(), values.rend()}});  // written from the back
  files_->write_metrics();
  files_->write_scalars();
}

void RunRecords::add_sample(int64_t step, const std::string& text) {
  files_->samples.push("--- step " + std::to_string(step) + " ---\n" + text + "\n\n");
  files_->write_samples();
}

bool RunRecords::has(int64_t step, const std::string& name) const {
  try {
    for (const io::RunRecord& record : io::read_run_log(files_->folder + "/metrics.jsonl"))
      for (const auto& [key, value] : record.metrics)
        if (record.step == step && key == name) return true;
    return false;
  } catch (const Error&) {
    return true;  // a log that cannot be read is no reason to measure again
  }
}

void RunRecords::plot() {
  files_->write_metrics();
  files_->picture.attempt(
      [&] { plot::write_loss_plot(files_->folder + "/loss.svg", files_->folder + "/metrics.jsonl"); });
}

void RunRecords::close() {
  Files& f = *files_;
  f.write_metrics();
  f.write_scalars();
  f.write_samples();
  f.metrics.attempt([&] {
    if (f.log) f.log->close();
  });
  f.scalars.attempt([&] {
    if (f.events) f.events->close();
  });
  f.metrics.tell_lost();
  f.scalars.tell_lost();
  f.samples.tell_lost();
}

}  // namespace reprise::train
