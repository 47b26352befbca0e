// A log that may fail: what it could not take waits, in order, for the next try.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <string>

#include "reprise/core/error.h"

namespace reprise::train {

/// Items for one log, oldest first.
template <class Item>
class RecordQueue {
 public:
  using Tell = std::function<void(const std::string&)>;

  /// `name`: of the file, for messages. `most` items wait; beyond that the oldest are lost, which is told.
  RecordQueue(std::string name, size_t most, Tell tell)
      : name_(std::move(name)), most_(most), tell_(std::move(tell)) {}

  void push(Item item) {
    if (waiting_.size() == most_) {
      waiting_.pop_front();
      ++lost_;
    }
    waiting_.push_back(std::move(item));
  }

  /// Calls `write(item)` for all that wait. An Error ends this try; it is told if the last try did not fail.
  template <class Write>
  void flush(Write&& write) {
    bool works = attempt([&] {
      for (; !waiting_.empty(); waiting_.pop_front()) write(waiting_.front());
    });
    if (works && lost_ > 0) tell_lost();
  }

  /// Calls `body`; tells an Error as `flush` does. Whether there was none.
  template <class Body>
  bool attempt(Body&& body) {
    std::string reason;
    try {
      body();
    } catch (const Error& error) {
      reason = error.what();
    } catch (const std::filesystem::filesystem_error& error) { reason = error.what(); }
    if (!reason.empty() && !failing_) tell_(name_ + " cannot be written, training goes on: " + reason);
    if (reason.empty() && failing_) tell_(name_ + " is written again, with what waited");
    failing_ = !reason.empty();
    return !failing_;
  }

  /// At the end: says how much never came to the disk.
  void tell_lost() {
    if (size_t count = lost_ + waiting_.size(); count > 0)
      tell_(name_ + " lacks " + std::to_string(count) + " records that could not be written");
    lost_ = 0;
  }

 private:
  std::string name_;
  size_t most_, lost_ = 0;
  bool failing_ = false;
  std::deque<Item> waiting_;
  Tell tell_;
};

}  // namespace reprise::train
