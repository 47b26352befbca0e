// --resume and --change.
#include "reprise/apps/gpt/resume.h"

#include "reprise/apps/common/training_run.h"
#include "reprise/apps/gpt/data_record.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/folder.h"

namespace reprise::apps::gpt {
namespace {

// What the weights and the optimizer's state are made for.
const std::set<std::string> fixed_options = {
    "--model",  "--layers",     "--heads",        "--width",    "--context",    "--bias",     "--kv-heads",
    "--hidden", "--rope-theta", "--rope-scaling", "--norm-eps", "--tied",       "--qkv-bias", "--head-dim",
    "--window", "--qk-norm",    "--vocab",        "--merges",   "--vocab-size", "--init-from"};

}  // namespace

void check_changes(const TrainCommand& c, const Corpus& corpus) {
  const std::string& folder = c.trainer.run_folder;
  DataDifference data{
      .options = {"--data", "--val-data"}, .source = c.data.data, .known = has_data_record(folder)};
  if (data.known) data.text = difference_of_data(folder, corpus);
  apps::check_changes(c, fixed_options, data);
}

void keep_options(const TrainCommand& c, const Corpus& corpus, int64_t first_step) {
  const std::string& folder = c.trainer.run_folder;
  keep_config(c, first_step);
  if (corpus.tokenizer && first_step == 0) {
    io::make_folders_durable(folder + "/tokenizer");
    corpus.tokenizer->save(folder + "/tokenizer");
  }
  if (c.change || first_step == 0) io::write_file(folder + "/data.toml", data_record(corpus));
}

}  // namespace reprise::apps::gpt
