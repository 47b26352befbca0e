#include "reprise/distributed/threads/switchboard.h"

#include <cstring>

#include "reprise/distributed/transport_failures.h"

namespace reprise::distributed {

// Until ready(), of something that `rank` does. What it did before it left, or before the world failed, counts.
void Switchboard::wait_for(std::unique_lock<std::mutex>& lock, int rank, Clock::time_point deadline,
                           Failure (*late)(int), auto&& ready) {
  while (!ready()) {
    if (failure_) throw TransportError(*failure_);
    if (left_[size_t(rank)]) throw TransportError(left_failure(rank, *left_[size_t(rank)]));
    if (changed_.wait_until(lock, deadline) == std::cv_status::timeout && !failure_ && !ready() &&
        !left_[size_t(rank)])
      throw TransportError(late(rank));
  }
}

void Switchboard::post(int from, int to, uint64_t tag, const Note& note) {
  std::lock_guard lock(mutex_);
  if (failure_) throw TransportError(*failure_);
  notes_[{from, to, tag}].push_back(note);
  changed_.notify_all();
}

Note Switchboard::take(int from, int to, uint64_t tag, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const auto place = notes_.try_emplace({from, to, tag}).first;  // stays where it is
  wait_for(lock, from, deadline, late_call, [&] { return !place->second.empty(); });
  const Note note = place->second.front();
  place->second.pop_front();
  if (place->second.empty()) notes_.erase(place);
  return note;
}

void Switchboard::exchange(int rank, uint64_t tag, std::span<const Transport::Send> sends,
                           std::span<const Transport::Receive> receives, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  std::deque<Posting> mine;  // stays where it is
  for (const Transport::Send& send : sends) {
    mine.push_back({send.data, send.bytes});
    postings_[{rank, send.to, tag}].push_back(&mine.back());
  }
  changed_.notify_all();
  try {
    for (const Transport::Receive& into : receives) receive(lock, rank, tag, into, deadline);
    for (size_t i = 0; i < mine.size(); ++i)
      wait_for(lock, sends[i].to, deadline, late_data, [&] { return mine[i].state == Posting::done; });
  } catch (...) {
    withdraw(lock, rank, tag, sends, mine);
    throw;
  }
}

void Switchboard::receive(std::unique_lock<std::mutex>& lock, int rank, uint64_t tag,
                          const Transport::Receive& into, Clock::time_point deadline) {
  std::deque<Posting*>& postings = postings_[{into.from, rank, tag}];
  wait_for(lock, into.from, deadline, late_data, [&] { return !postings.empty(); });
  Posting& posting = *postings.front();
  postings.pop_front();
  invariant(posting.bytes == into.bytes, "exchange: rank ", into.from, " sends ", posting.bytes,
            " bytes, rank ", rank, " expects ", into.bytes);
  posting.state = Posting::copying;
  lock.unlock();
  std::memcpy(into.data, posting.data, into.bytes);
  lock.lock();
  posting.state = Posting::done;
  changed_.notify_all();
}

// Nobody reads this rank's memory any more once this has returned.
void Switchboard::withdraw(std::unique_lock<std::mutex>& lock, int rank, uint64_t tag,
                           std::span<const Transport::Send> sends, std::deque<Posting>& mine) {
  for (size_t i = 0; i < mine.size(); ++i) {
    std::erase(postings_[{rank, sends[i].to, tag}], &mine[i]);
    changed_.wait(lock, [&] { return mine[i].state != Posting::copying; });
  }
}

std::optional<Failure> Switchboard::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

Failure Switchboard::fail(const Failure& failure) {
  std::lock_guard lock(mutex_);
  if (!failure_) failure_ = failure;
  changed_.notify_all();
  return *failure_;
}

void Switchboard::leave(int rank, const std::string& last) {
  std::lock_guard lock(mutex_);
  left_[size_t(rank)] = last;
  changed_.notify_all();
}

}  // namespace reprise::distributed
