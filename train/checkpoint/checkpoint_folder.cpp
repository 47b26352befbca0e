// Names, LATEST and rotation.
#include "reprise/train/checkpoint/checkpoint_folder.h"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <tuple>

#include "reprise/core/error.h"
#include "reprise/core/number_in.h"
#include "reprise/core/quote.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/file_calls.h"
#include "reprise/io/folder.h"
#include "reprise/io/safetensors.h"
#include "reprise/train/checkpoint/manifest.h"

namespace reprise::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view step_prefix = "step-";
constexpr std::string_view unfinished_prefix = ".unfinished-";
constexpr std::string_view latest_temporary = "LATEST.tmp.";
constexpr std::string_view again = "-again";

struct Name {
  int64_t step = 0, time = 0;  // the time-th checkpoint of the step, from 0
};

std::string text_of(const Name& name) {
  std::string text = fmt::format("{}{:08}", step_prefix, name.step);
  if (name.time > 0) text += again;
  return name.time > 1 ? text + "-" + std::to_string(name.time) : text;
}

// Only what `text_of` writes: "step-4" or "step-00000004-best" were not made here.
std::optional<Name> parse(std::string_view text) {
  if (!text.starts_with(step_prefix)) return {};
  std::string_view rest = text.substr(step_prefix.size());
  size_t digits = std::min(rest.find('-'), rest.size());
  std::optional<int64_t> step = number_in<int64_t>(rest.substr(0, digits)), time = 0;
  std::string_view suffix = rest.substr(digits);
  if (suffix == again) {
    time = 1;
  } else if (suffix.starts_with(again) && suffix.size() > again.size()) {
    time = number_in<int64_t>(suffix.substr(again.size() + 1));
  } else if (!suffix.empty()) {
    return {};
  }
  if (!step || !time) return {};
  Name name{*step, *time};
  return text_of(name) == text ? std::optional(name) : std::nullopt;
}

// Nothing where there is no such folder yet. Error if it cannot be read to its end: what was not seen is not
// known.
std::vector<std::string> entries_of(const std::string& folder) {
  return io::exists_or_links(folder) ? io::names_in(folder) : std::vector<std::string>();
}

// Another process of this machine that still runs: what it writes is not for us to clean up.
bool is_another_process(std::string_view number) {
  std::optional<int64_t> process = number_in<int64_t>(number);
  if (!process || *process <= 0 || *process == ::getpid()) return false;
  return ::kill(pid_t(*process), 0) == 0 || errno == EPERM;
}

// Whether it is what a save left that failed or was killed: ".unfinished-step-00000012.PROCESS" or
// "LATEST.tmp.PROCESS.SERIAL".
bool is_left_over(std::string_view name) {
  if (name.starts_with(latest_temporary)) {
    name.remove_prefix(latest_temporary.size());
    return !is_another_process(name.substr(0, name.find('.')));
  }
  if (!name.starts_with(unfinished_prefix)) return false;
  name.remove_prefix(unfinished_prefix.size());
  size_t dot = std::min(name.find('.'), name.size());
  return parse(name.substr(0, dot)) && (dot == name.size() || !is_another_process(name.substr(dot + 1)));
}

void rename_folder(const std::string& from, const std::string& to) {
  if (io::file_calls().rename(from.c_str(), to.c_str()) == 0) return;
  int reason = errno;
  fail("rename: ", from, " to ", to, ": ", std::strerror(reason), " (errno ", reason, ")");
}

template <class Remove>
void try_to_remove(std::string& complaint, Remove&& remove) {
  try {
    remove();
  } catch (const Error& error) { complaint = error.what(); } catch (const fs::filesystem_error& error) {
    complaint = error.what();
  }
}

}  // namespace

std::optional<int64_t> CheckpointFolder::step_of(std::string_view name) {
  std::optional<Name> parsed = parse(name);
  return parsed ? std::optional(parsed->step) : std::nullopt;
}

std::vector<std::string> CheckpointFolder::names() const {
  std::vector<std::string> names;
  for (std::string& name : entries_of(path_))
    if (parse(name)) names.push_back(std::move(name));
  auto place = [](const std::string& name) {
    Name parsed = *parse(name);
    return std::tuple(parsed.step, parsed.time);
  };
  std::sort(names.begin(), names.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
  return names;
}

// What LATEST holds, or nothing.
std::string CheckpointFolder::latest() const {
  std::string latest = path_of("LATEST");
  if (!io::exists_or_links(latest)) return "";
  check(io::File::open(latest).size() <= 4096, latest, ": too long for the name of a checkpoint");
  std::string name = io::read_file(latest);
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

std::string CheckpointFolder::newest() const {
  std::vector<std::string> all = names();
  if (!io::exists_or_links(path_of("LATEST"))) return all.empty() ? "" : all.back();
  std::string name = latest(), there;
  for (const std::string& other : all) there += (there.empty() ? "; there are " : ", ") + other;
  std::string cure = there + "; put the name of a good one into it, or remove it to take the newest";
  bool is_name = name.starts_with(step_prefix) && std::all_of(name.begin(), name.end(), [](char letter) {
                   return letter > ' ' && letter <= '~' && letter != '/';
                 });
  check(is_name, path_, "/LATEST: holds ", quote(name), ", not the name of a checkpoint", cure);
  check(io::exists_or_links(path_of(name)), path_, "/LATEST: names ", name, ", which is not there", cure);
  return name;
}

std::string CheckpointFolder::make_name(int64_t step) const {
  std::string newest = latest();
  for (Name name{step, 0};; ++name.time) {
    std::string text = text_of(name);
    if (!io::exists_or_links(path_of(text))) return text;
    if (text == newest || !may_be_deleted(text)) continue;
    remove(text);
    return text;
  }
}

std::string CheckpointFolder::begin(const std::string& name) const {
  io::make_folders_durable(path_);
  remove_unfinished();
  std::string unfinished = fmt::format("{}/{}{}.{}", path_, unfinished_prefix, name, ::getpid());
  fs::create_directory(unfinished);
  return unfinished;
}

void CheckpointFolder::finish(const std::string& unfinished, const std::string& name) const {
  io::sync_folder(unfinished);
  rename_folder(unfinished, path_of(name));
  io::sync_folder(path_);
  try {
    io::write_file(path_of("LATEST"), name + "\n");
  } catch (const Error&) {
    discard(name);
    throw;
  }
}

// What LATEST does not name is no use, and takes the room that the next try needs.
void CheckpointFolder::discard(const std::string& name) const {
  std::string complaint;
  try_to_remove(complaint, [&] {
    if (latest() != name) remove(name);
  });
}

// It has its own step inside, and nothing but the files of its manifest.
bool CheckpointFolder::may_be_deleted(const std::string& name) const {
  std::string folder = path_of(name);
  std::error_code ignored;
  if (fs::symlink_status(folder, ignored).type() != fs::file_type::directory) return false;
  try {
    std::vector<std::string> listed = manifest_files(folder);
    for (const std::string& file : entries_of(folder))
      if (file != manifest_name && std::find(listed.begin(), listed.end(), file) == listed.end())
        return false;
    io::SafetensorsFile model(folder + "/model.safetensors");
    auto step = model.metadata().find("step");
    return step != model.metadata().end() && number_in<int64_t>(step->second) == step_of(name);
  } catch (const Error&) {
    return false;  // whatever it is, it is not what this program writes
  }
}

// Under another name first: a crash in the middle leaves no half checkpoint.
void CheckpointFolder::remove(const std::string& name) const {
  std::string doomed = fmt::format("{}/{}{}.{}", path_, unfinished_prefix, name, ::getpid());
  rename_folder(path_of(name), doomed);
  io::remove_flat_folder(doomed);
}

std::string CheckpointFolder::remove_unfinished() const {
  std::string complaint;
  auto remove_one = [&](const std::string& path) {
    if (fs::is_directory(fs::symlink_status(path))) return io::remove_flat_folder(path);
    fs::remove(path);
  };
  try_to_remove(complaint, [&] {
    for (const std::string& name : entries_of(path_))
      if (is_left_over(name)) try_to_remove(complaint, [&] { remove_one(path_of(name)); });
  });
  return complaint;
}

// A crash can leave a checkpoint of a later step that LATEST never named: it does not count, and stays until
// training gets there again.
std::string CheckpointFolder::clean(const std::string& latest, int keep) const {
  std::vector<std::string> mine = names();
  mine.erase(std::find(mine.begin(), mine.end(), latest), mine.end());
  std::erase_if(mine, [&](const std::string& name) { return !may_be_deleted(name); });
  std::string complaint;
  for (size_t i = 0; i + size_t(keep) <= mine.size(); ++i) try_to_remove(complaint, [&] { remove(mine[i]); });
  return complaint;
}

}  // namespace reprise::train
