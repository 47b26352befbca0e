#include "reprise/train/save.h"

#include <filesystem>
#include <optional>
#include <random>

#include "reprise/io/atomic_file.h"
#include "reprise/io/file.h"
#include "reprise/io/file_calls.h"
#include "reprise/io/folder.h"
#include "reprise/train/ranks/agreement.h"

namespace reprise::train {
namespace {

constexpr char well = '+', failed = '-';

// What `act` gives, or how it fails.
template <class Act>
std::string outcome_of(Act&& act) {
  try {
    return well + act();
  } catch (const std::bad_alloc&) {
    return failed + std::string("out of memory that no tensor holds");
  } catch (const std::exception& error) { return std::string(1, failed) + error.what(); }
}

// What was given on each rank; a SaveError on all of them if one has failed.
std::vector<std::string> outcomes(distributed::ProcessGroup& group, const std::string& mine) {
  std::vector<std::string> all = group.gather_text(mine);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank][0] != well) throw SaveError(int(rank), all[rank].substr(1));
    all[rank].erase(0, 1);
  }
  return all;
}

std::string path_of(const std::string& folder) { return folder + "/.seen-by-ranks"; }

// A file that no other folder has.
struct Mark {
  std::string path, text;
};

Mark make_mark(const std::string& folder) {
  std::random_device random;
  std::string text;
  for (int i = 0; i < 4; ++i) text += std::to_string(random()) + ".";
  const std::string path = std::filesystem::canonical(folder);
  io::write_file(path_of(path), text);
  return {path, text};
}

// Whether another rank reads it there, and can write beside it.
bool can_use(const Mark& mark, int rank) {
  try {
    if (mark.path.empty() || !io::exists(path_of(mark.path)) ||
        io::read_file(path_of(mark.path), 4096) != mark.text)
      return false;
    const std::string own = path_of(mark.path) + "-" + std::to_string(rank);
    io::write_file(own, "");
    io::file_calls().unlink(own.c_str());
    return true;
  } catch (const Error&) { return false; }
}

}  // namespace

Save::Save(std::string run_folder, int64_t step, int keep, distributed::ProcessGroup* group,
           const std::function<void()>& prepare)
    : run_folder_(std::move(run_folder)), keep_(keep), group_(group) {
  if (!group) {
    prepare();
    return;
  }
  folder_ = outcomes(*group, outcome_of([&] {
    prepare();
    return leads() ? unfinished_.emplace(run_folder_, step).path() : std::string();
  }))[0];
}

std::string Save::write(const Checkpoint& checkpoint) {
  if (!group_) return save_checkpoint(run_folder_, checkpoint, keep_);
  return outcome_of([&] { return write_parts(folder_, checkpoint); });
}

std::string Save::finish(const std::string& written) {
  if (!group_) return written;
  const std::vector<std::string> manifests = outcomes(*group_, written);
  auto put_in_place = [&] { return leads() ? unfinished_->finish(manifests, keep_) : std::string(); };
  return outcomes(*group_, outcome_of(put_in_place))[0];
}

SharedFolder look_for_shared_folder(distributed::ProcessGroup& group, const std::string& folder) {
  Mark mark;
  const bool leads = group.rank() == 0;
  try {
    if (leads) mark = make_mark(folder);
  } catch (const std::exception&) {}  // where it cannot be written, nobody can
  mark = {group.gather_text(mark.path)[0], group.gather_text(mark.text)[0]};
  const std::vector<double> all =
      of_all_ranks(group, {double(leads || can_use(mark, group.rank()))}, "run folder");
  if (leads && !mark.path.empty()) io::file_calls().unlink(path_of(mark.path).c_str());
  SharedFolder shared{.path = mark.path};
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] == 0) shared.blind.push_back(int(rank));
  return shared;
}

}  // namespace reprise::train
