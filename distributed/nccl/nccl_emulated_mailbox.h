// Mailbox: one rank's view of the folder in which the ranks of a communicator of NCCL's double, threads or processes, leave
// messages for each other. A file is a message; it is whole once it has its name, and gone once it is taken.
#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace reprise::distributed::emulated {

class Mailbox {
 public:
  /// Tells the others of this rank. `id` names the folder.
  Mailbox(const std::string& id, int rank);

  bool has_all(int ranks) const;  ///< those that have left since were there

  /// The message's name; messages to one rank are taken in the order of these calls.
  std::string put(int to, const void* data, size_t bytes);
  bool is_taken(const std::string& message) const;
  /// The next message of this rank, once it is there. One of another size is never taken.
  std::optional<std::string> take(int from, size_t bytes);

  void leave();  ///< the last one removes the folder
  /// Removes the folder, so that others wait until they abort too.
  void abort();
  bool is_aborted() const { return is_aborted_; }

 private:
  std::filesystem::path path_of(int from, int to, int number) const;

  std::filesystem::path folder_;
  int rank_;
  std::map<int, int> sent_, taken_;  // numbers, by the other rank
  std::atomic<bool> is_aborted_{false};
};

}  // namespace reprise::distributed::emulated
