// --resume and --change.
#include "reprise/apps/gpt/resume.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "reprise/apps/gpt/data_record.h"
#include "reprise/core/device.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/folder.h"

namespace reprise::apps::gpt {
namespace {

// Note: --device and --attention are not free, since kernels of two devices round differently.
const std::set<std::string> free_options = {
    "--threads",       "--recompute",  "--memory-budget", "--memory-limit", "--eval-every", "--eval-batches",
    "--sample-every",  "--save-every", "--keep",          "--steps",        "--anomaly",    "--prompt",
    "--sample-tokens", "--samples",    "--temperature",   "--top-k",        "--top-p",      "--sample-seed"};

// What the weights and the optimizer's state are made for.
const std::set<std::string> fixed_options = {"--layers", "--heads",  "--width",      "--context",  "--bias",
                                             "--vocab",  "--merges", "--vocab-size", "--init-from"};

bool is_of_data(const OptionChange& change) {
  return change.option == "--data" || change.option == "--val-data";
}

bool is_same_device(const OptionChange& change) {
  if (change.option != "--device") return false;
  try {
    return Device::parse(change.was) == Device::parse(change.now);
  } catch (const Error&) { return false; }
}

}  // namespace

void drop_free_changes(std::vector<OptionChange>& changes) {
  std::erase_if(changes, [](const OptionChange& change) {
    return free_options.contains(change.option) || is_same_device(change);
  });
}

void check_changes(const TrainCommand& c, const Corpus& corpus) {
  std::vector<OptionChange> changes = c.changes, fixed;
  const std::string& folder = c.trainer.run_folder;
  bool known = has_data_record(folder);
  std::string other_data = known ? difference_of_data(folder, corpus) : "";
  if (known && other_data.empty()) std::erase_if(changes, is_of_data);
  std::copy_if(changes.begin(), changes.end(), std::back_inserter(fixed),
               [](const OptionChange& change) { return fixed_options.contains(change.option); });
  check(changes.empty() || c.change, "--resume: the run in ", folder,
        " was started with other options: ", to_string(changes),
        "; leave them out to go on as it was, or add --change to go on with the new ones");
  check(fixed.empty(), "--resume: the weights of ", folder, " are not for ", to_string(fixed),
        ": that cannot change; start a new run, with --init-from for the weights");
  check(other_data.empty() || c.change, "--resume: ", c.data.data, " is not the data that the run in ",
        folder, " was started with: ", other_data, "; give that, or add --change to go on with the new one");
}

void keep_options(const TrainCommand& c, const Corpus& corpus, int64_t first_step) {
  const std::string &folder = c.trainer.run_folder, path = folder + "/config.toml";
  std::string before = io::exists(path) ? io::read_file(path) : "";
  if (c.change && !before.empty() && before != c.resolved)
    io::write_file(fmt::format("{}/config-until-step-{:08}.toml", folder, first_step), before);
  if (before != c.resolved) io::write_file(path, c.resolved);
  if (corpus.tokenizer && first_step == 0) {
    io::make_folders_durable(folder + "/tokenizer");
    corpus.tokenizer->save(folder + "/tokenizer");
  }
  if (c.change || first_step == 0) io::write_file(folder + "/data.toml", data_record(corpus));
}

}  // namespace reprise::apps::gpt
