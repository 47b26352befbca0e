// Saving and loading of checkpoints.
#include "reprise/train/checkpoint.h"

#include <filesystem>
#include <functional>

#include "reprise/core/number_in.h"
#include "reprise/io/file.h"
#include "reprise/io/folder.h"
#include "reprise/io/safetensors.h"
#include "reprise/io/weights.h"
#include "reprise/train/checkpoint/manifest.h"
#include "reprise/train/optimizer_files.h"

namespace reprise::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* model_prefix = "model.";  // of the metadata keys that describe the model

// Hollow ones are made as they are written.
io::NamedViews views(const nn::NamedTensors& tensors, const distributed::WholeOf& whole) {
  io::NamedViews views;
  for (const auto& [name, x] : tensors)
    if (x.is_hollow())
      views.emplace_back(name, io::KeptView({nullptr, x.shape(), x.strides(), x.dtype(), x.device()},
                                            [x, whole] { return whole(x); }));
    else
      views.emplace_back(name, x);
  return views;
}

nn::NamedTensors read_all(const std::string& path) {
  io::SafetensorsFile file(path);
  nn::NamedTensors tensors;
  for (const io::SafetensorInfo& info : file.tensors()) tensors.emplace_back(info.name, file.read(info.name));
  return tensors;
}

uint64_t count_in(const std::map<std::string, std::string>& metadata, const std::string& key,
                  const std::string& path) {
  auto found = metadata.find(key);
  check(found != metadata.end(), path, ": no \"", key,
        "\" in its metadata: not a checkpoint of this program");
  std::optional<uint64_t> value = number_in<uint64_t>(found->second);
  check(value.has_value(), path, ": \"", key, "\" is '", found->second, "', not a number");
  return *value;
}

std::map<std::string, std::string> metadata_of(const Checkpoint& checkpoint) {
  std::map<std::string, std::string> metadata{{"step", std::to_string(checkpoint.step)},
                                              {"random_seed", std::to_string(checkpoint.random.seed)},
                                              {"random_offset", std::to_string(checkpoint.random.offset)}};
  for (const auto& [key, value] : checkpoint.model) metadata[model_prefix + key] = value;
  return metadata;
}

std::string newest(const std::string& run_folder) {
  CheckpointFolder folder(run_folder);
  std::string name = folder.newest();
  check(!name.empty(), run_folder, ": no checkpoint there (no checkpoints/LATEST)");
  return folder.path_of(name);
}

// The checkpoint in one folder, with the sizes and checksums of its manifest.
Checkpoint read_folder(const std::string& folder, bool with_optimizer, const nn::NamedTensors& own) {
  check_manifest(folder);
  std::string model_path = folder + "/model.safetensors";
  Checkpoint checkpoint{.path = folder};
  io::SafetensorsFile model(model_path);
  uint64_t step = count_in(model.metadata(), "step", model_path);
  check(step <= uint64_t(INT64_MAX) / 2, model_path, ": step ", step, " is out of range");
  checkpoint.step = int64_t(step);
  int64_t named = CheckpointFolder::step_of(fs::path(folder).filename().string()).value_or(checkpoint.step);
  check(named == checkpoint.step, model_path, ": is of step ", checkpoint.step,
        ", not of the one that its folder names");
  checkpoint.random = {count_in(model.metadata(), "random_seed", model_path),
                       count_in(model.metadata(), "random_offset", model_path)};
  for (const auto& [key, value] : model.metadata())
    if (key.starts_with(model_prefix)) checkpoint.model[key.substr(std::string(model_prefix).size())] = value;
  checkpoint.parameters = read_all(model_path);
  if (with_optimizer)
    checkpoint.optimizer = read_optimizer(folder, own), checkpoint.origin = optimizer_origin(folder);
  if (io::exists(folder + "/ema.safetensors")) checkpoint.ema = read_all(folder + "/ema.safetensors");
  if (with_optimizer && io::exists(folder + "/loss_scale.safetensors"))
    checkpoint.loss_scale = read_all(folder + "/loss_scale.safetensors");
  if (with_optimizer && io::exists(folder + "/bucket_order.safetensors"))
    checkpoint.bucket_order = read_all(folder + "/bucket_order.safetensors");
  return checkpoint;
}

// What the library of file systems throws is an Error here too.
template <class Body>
void with_errors(Body&& body) {
  try {
    body();
  } catch (const fs::filesystem_error& error) { fail("checkpoint: ", error.what()); }
}

// What LATEST holds now, whatever that is; empty without one.
std::string named_newest(const std::string& run_folder) {
  std::string latest = run_folder + "/checkpoints/LATEST";
  return io::exists(latest) ? io::read_file(latest) : "";
}

}  // namespace

NewCheckpoint::NewCheckpoint(const std::string& run_folder, int64_t step) : folder_(run_folder) {
  with_errors([&] {
    name_ = folder_.make_name(step);
    path_ = folder_.begin(name_);
  });
}

NewCheckpoint::~NewCheckpoint() {
  if (is_finished_) return;
  try {
    folder_.remove_unfinished();
  } catch (const std::exception&) {}  // the next save tries again
}

std::string NewCheckpoint::finish(const std::vector<std::string>& manifests, int keep) {
  check(keep >= 1, "checkpoint: must keep at least one, got ", keep);
  with_errors([&] {
    write_manifest(path_, manifests);
    folder_.finish(path_, name_);
  });
  is_finished_ = true;
  return folder_.clean(name_, keep);
}

std::string write_parts(const std::string& folder, const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  auto write = [&](const char* name, const io::NamedViews& tensors, const auto& metadata) {
    io::write_safetensors(folder + "/" + names.emplace_back(name), tensors, metadata);
  };
  const std::map<std::string, std::string> none;
  // All that takes other ranks comes first: one that fails with its own file leaves none waiting. By reference, since a rank
  // that lacked the room for a copy would.
  auto read = [&](const distributed::WholeOf& whole) {
    write("model.safetensors", views(checkpoint.parameters, whole), metadata_of(checkpoint));
    if (!checkpoint.ema.empty()) write("ema.safetensors", views(checkpoint.ema, whole), none);
    if (!checkpoint.loss_scale.empty())
      write("loss_scale.safetensors", views(checkpoint.loss_scale, whole), none);
    if (!checkpoint.bucket_order.empty())
      write("bucket_order.safetensors", views(checkpoint.bucket_order, whole), none);
  };
  read_on_rank_0(checkpoint, std::ref(read));
  names.push_back(
      write_optimizer(folder, checkpoint.optimizer, checkpoint.rank, checkpoint.ranks, checkpoint.origin));
  return manifest_of(folder, names);
}

void read_on_rank_0(const Checkpoint& checkpoint,
                    const std::function<void(const distributed::WholeOf& whole)>& read) {
  if (checkpoint.shared)
    checkpoint.shared->read_on_rank_0(read);
  else if (checkpoint.rank == 0)
    read([](const Tensor& x) { return x; });
}

std::string save_checkpoint(const std::string& run_folder, const Checkpoint& checkpoint, int keep) {
  NewCheckpoint unfinished(run_folder, checkpoint.step);
  return unfinished.finish({write_parts(unfinished.path(), checkpoint)}, keep);
}

void consolidate_checkpoint(const std::string& path, const std::string& out) {
  check(!io::exists_or_links(out), "consolidate: ", out, " is there already");
  check(!io::exists(path) || fs::is_directory(path), "consolidate: ", path,
        " is a file, not a run or checkpoint");
  Checkpoint checkpoint = load_checkpoint(path, true);
  checkpoint.bucket_order.clear();  // one process sends nothing
  with_errors([&] {
    io::make_folders_durable(out);
    try {
      write_manifest(out, {write_parts(out, checkpoint)});
    } catch (...) {
      io::remove_flat_folder(out);
      throw;
    }
  });
}

bool has_checkpoint(const std::string& run_folder) {
  CheckpointFolder folder(run_folder);
  return io::exists_or_links(folder.path_of("LATEST")) || !folder.names().empty();
}

bool has_loss_scale(const std::string& run_folder) {
  return has_checkpoint(run_folder) && io::exists(newest(run_folder) + "/loss_scale.safetensors");
}

Checkpoint load_checkpoint(const std::string& path, bool with_optimizer, const nn::NamedTensors& own) {
  check(io::exists(path), path, ": no such run, checkpoint or file");
  if (!fs::is_directory(path)) {
    Checkpoint weights{.path = path};
    weights.parameters = io::read_weights(path).tensors;
    return weights;
  }
  if (io::exists(path + "/model.safetensors")) return read_folder(path, with_optimizer, own);
  for (;;) {
    std::string named = named_newest(path);
    try {
      return read_folder(newest(path), with_optimizer, own);
    } catch (const std::exception&) {
      // A training run may have rotated it away meanwhile: then LATEST names a newer one.
      if (named == named_newest(path)) throw;
    }
  }
}

}  // namespace reprise::train
