// Saving and loading of checkpoints.
#include "reprise/apps/common/checkpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "reprise/apps/common/manifest.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/safetensors.h"

namespace reprise::apps {
namespace {

namespace fs = std::filesystem;

constexpr const char* step_prefix = "step-";
constexpr const char* unfinished_prefix = ".unfinished-";
constexpr const char* model_prefix = "model.";  // of the metadata keys that describe the model

io::NamedViews views(const nn::NamedTensors& tensors) {
  io::NamedViews out;
  for (const auto& [name, tensor] : tensors) out.emplace_back(name, tensor.view());
  return out;
}

nn::NamedTensors read_all(const std::string& path) {
  io::SafetensorsFile file(path);
  nn::NamedTensors tensors;
  for (const io::SafetensorInfo& info : file.tensors()) tensors.emplace_back(info.name, file.read(info.name));
  return tensors;
}

uint64_t number_in(const std::map<std::string, std::string>& metadata, const std::string& key,
                   const std::string& path) {
  auto found = metadata.find(key);
  check(found != metadata.end(), path, ": no \"", key,
        "\" in its metadata: not a checkpoint of this program");
  uint64_t value = 0;
  const std::string& text = found->second;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check(error == std::errc() && end == text.data() + text.size(), path, ": \"", key, "\" is '", text,
        "', not a number");
  return value;
}

std::vector<std::string> finished_checkpoints(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory() && entry.path().filename().string().starts_with(step_prefix))
      names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

void write_parts(const std::string& folder, const Checkpoint& checkpoint) {
  std::map<std::string, std::string> metadata{{"step", std::to_string(checkpoint.step)},
                                              {"random_seed", std::to_string(checkpoint.random.seed)},
                                              {"random_offset", std::to_string(checkpoint.random.offset)}};
  for (const auto& [key, value] : checkpoint.model) metadata[model_prefix + key] = value;
  io::write_safetensors(folder + "/model.safetensors", views(checkpoint.parameters), metadata);
  io::write_safetensors(folder + "/optimizer.safetensors", views(checkpoint.optimizer));
  if (!checkpoint.ema.empty()) io::write_safetensors(folder + "/ema.safetensors", views(checkpoint.ema));
  write_manifest(folder);
}

// All but the newest `keep`, counted from the one that LATEST names. A crash can leave one of a later step
// that LATEST never named: it does not count, and stays until training gets there again.
void remove_old(const std::string& folder, const std::string& latest, int keep) {
  std::vector<std::string> names = finished_checkpoints(folder);
  names.erase(std::upper_bound(names.begin(), names.end(), latest), names.end());
  for (size_t i = 0; i + size_t(keep) < names.size(); ++i) fs::remove_all(folder + "/" + names[i]);
}

// What earlier saves left that failed or were killed.
void remove_unfinished(const std::string& folder) {
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(unfinished_prefix)) left.push_back(entry.path());
  for (const fs::path& path : left) fs::remove_all(path);
}

// What LATEST holds, or nothing.
std::string latest_name(const std::string& folder) {
  std::string latest = folder + "/LATEST";
  if (!fs::exists(latest)) return "";
  std::string name = io::read_file(latest);
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

std::string newest(const std::string& run_folder) {
  check(has_checkpoint(run_folder), run_folder, ": no checkpoint there (no checkpoints/LATEST)");
  std::string folder = run_folder + "/checkpoints", name = latest_name(folder);
  check(name.starts_with(step_prefix) && name.find('/') == std::string::npos, folder, "/LATEST: holds '",
        name, "', not the name of a checkpoint");
  return folder + "/" + name;
}

}  // namespace

void save_checkpoint(const std::string& run_folder, const Checkpoint& checkpoint, int keep) {
  check(keep >= 1, "checkpoint: must keep at least one, got ", keep);
  std::string folder = run_folder + "/checkpoints",
              name = fmt::format("{}{:08}", step_prefix, checkpoint.step);
  try {
    fs::create_directories(folder);
    remove_unfinished(folder);
    // The newest one stays where it is until LATEST names its successor, also when both are of one step.
    if (name == latest_name(folder)) name += "-again";
    std::string unfinished = folder + "/" + unfinished_prefix + name, finished = folder + "/" + name;
    fs::create_directory(unfinished);
    write_parts(unfinished, checkpoint);
    io::sync_folder(unfinished);
    fs::remove_all(finished);  // of an earlier run that stopped here
    fs::rename(unfinished, finished);
    io::sync_folder(folder);
    io::write_file(folder + "/LATEST", name + "\n");
    remove_old(folder, name, keep);
  } catch (const fs::filesystem_error& error) { fail("checkpoint: ", error.what()); }
}

bool has_checkpoint(const std::string& run_folder) { return fs::exists(run_folder + "/checkpoints/LATEST"); }

Checkpoint load_checkpoint(const std::string& path, bool with_optimizer) {
  check(fs::exists(path), path, ": no such run, checkpoint or file");
  Checkpoint checkpoint;
  if (!fs::is_directory(path)) {
    checkpoint.parameters = read_all(path);
    return checkpoint;
  }
  std::string folder = fs::exists(path + "/model.safetensors") ? path : newest(path);
  check_manifest(folder);
  std::string model_path = folder + "/model.safetensors";
  io::SafetensorsFile model(model_path);
  checkpoint.step = int64_t(number_in(model.metadata(), "step", model_path));
  checkpoint.random = {number_in(model.metadata(), "random_seed", model_path),
                       number_in(model.metadata(), "random_offset", model_path)};
  for (const auto& [key, value] : model.metadata())
    if (key.starts_with(model_prefix)) checkpoint.model[key.substr(std::string(model_prefix).size())] = value;
  checkpoint.parameters = read_all(model_path);
  if (with_optimizer) checkpoint.optimizer = read_all(folder + "/optimizer.safetensors");
  if (fs::exists(folder + "/ema.safetensors")) checkpoint.ema = read_all(folder + "/ema.safetensors");
  return checkpoint;
}

}  // namespace reprise::apps
