#include "reprise/distributed/nccl/nccl_emulated_mailbox.h"

#include <fstream>

#include "reprise/core/error.h"

namespace reprise::distributed::emulated {
namespace {

namespace files = std::filesystem;

// In memory where the system has such a folder.
files::path root() {
  std::error_code error;
  return files::is_directory("/dev/shm", error) ? files::path("/dev/shm") : files::temp_directory_path();
}

std::string mark_of(int rank) { return detail::join("rank-", rank); }
std::string left_mark_of(int rank) { return detail::join("left-", rank); }

}  // namespace

Mailbox::Mailbox(const std::string& id, int rank) : folder_(root() / ("reprise-nccl-" + id)), rank_(rank) {
  files::create_directory(folder_);
  files::permissions(folder_, files::perms::owner_all);
  std::ofstream(folder_ / mark_of(rank)).flush();
}

bool Mailbox::has_all(int ranks) const {
  std::error_code error;
  for (int r = 0; r < ranks; ++r)
    if (!files::exists(folder_ / mark_of(r), error) && !files::exists(folder_ / left_mark_of(r), error))
      return false;
  return true;
}

files::path Mailbox::path_of(int from, int to, int number) const {
  return folder_ / detail::join(from, "-", to, "-", number);
}

std::string Mailbox::put(int to, const void* data, size_t bytes) {
  const files::path path = path_of(rank_, to, ++sent_[to]), unfinished = path.string() + ".part";
  {
    std::ofstream file(unfinished, std::ios::binary);
    file.write(static_cast<const char*>(data), std::streamsize(bytes));
  }
  std::error_code error;  // where another rank has aborted, there is no folder any more
  files::rename(unfinished, path, error);
  return path.string();
}

bool Mailbox::is_taken(const std::string& message) const {
  std::error_code error;
  return !files::exists(message, error) && files::exists(folder_, error);
}

std::optional<std::string> Mailbox::take(int from, size_t bytes) {
  const files::path path = path_of(from, rank_, taken_[from] + 1);
  std::error_code error;
  if (files::file_size(path, error) != bytes || error) return {};
  std::string text(bytes, '\0');
  if (!std::ifstream(path, std::ios::binary).read(text.data(), std::streamsize(bytes))) return {};
  files::remove(path, error);
  ++taken_[from];
  return text;
}

void Mailbox::leave() {
  std::error_code error;
  files::rename(folder_ / mark_of(rank_), folder_ / left_mark_of(rank_), error);
  for (files::directory_iterator file(folder_, error), end; !error && file != end; file.increment(error))
    if (file->path().filename().string().starts_with("rank-")) return;
  files::remove_all(folder_, error);
}

// The folder goes in one step, so that no message looks taken before the folder is gone.
void Mailbox::abort() {
  is_aborted_ = true;
  const files::path aborted = folder_.string() + detail::join(".aborted-by-", rank_);
  std::error_code error;
  files::rename(folder_, aborted, error);  // fails where another rank has aborted
  files::remove_all(aborted, error);
}

}  // namespace reprise::distributed::emulated
