// One process trains in a run folder at a time.
#pragma once

#include <functional>
#include <string>

namespace reprise::train {

/// Held from the first to the last byte that a program writes into a run folder. It is the kernel's lock on
/// the file `lock` there: it goes with the process, however that ends, and a file that was left means
/// nothing.
class RunLock {
 public:
  using Tell = std::function<void(const std::string&)>;

  /// Error naming the process that holds it. `tell` is given a warning where the file system knows no locks.
  RunLock(const std::string& run_folder, const Tell& tell);
  ~RunLock();
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&&) = delete;

  static constexpr const char* file_name = "lock";

 private:
  int descriptor_ = -1;
};

}  // namespace reprise::train
