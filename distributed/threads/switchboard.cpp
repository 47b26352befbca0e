#include "reprise/distributed/threads/switchboard.h"

#include <cstring>

namespace reprise::distributed {

// Until ready(), of something that `rank` does. What it did before it left, or before the world failed, counts.
void Switchboard::wait_for(std::unique_lock<std::mutex>& lock, int rank, Clock::time_point deadline,
                           auto&& ready) {
  while (!failure_ && !ready()) {
    if (left_[size_t(rank)])
      throw TransportError({FailureKind::left, rank, detail::join("rank ", rank, " left the group")});
    if (changed_.wait_until(lock, deadline) == std::cv_status::timeout && !failure_ && !ready() &&
        !left_[size_t(rank)])
      throw TransportError(
          {FailureKind::late, rank, detail::join("rank ", rank, " did not make the call in time")});
  }
  if (failure_) throw TransportError(*failure_);
}

void Switchboard::post(int from, int to, uint64_t tag, const Note& note) {
  std::lock_guard lock(mutex_);
  if (failure_) throw TransportError(*failure_);
  notes_[{from, to, tag}].push_back(note);
  changed_.notify_all();
}

Note Switchboard::take(int from, int to, uint64_t tag, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  std::deque<Note>& notes = notes_[{from, to, tag}];
  wait_for(lock, from, deadline, [&] { return !notes.empty(); });
  Note note = notes.front();
  notes.pop_front();
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
      wait_for(lock, sends[i].to, deadline, [&] { return mine[i].state == Posting::done; });
  } catch (...) {
    withdraw(lock, rank, tag, sends, mine);
    throw;
  }
}

void Switchboard::receive(std::unique_lock<std::mutex>& lock, int rank, uint64_t tag,
                          const Transport::Receive& into, Clock::time_point deadline) {
  std::deque<Posting*>& postings = postings_[{into.from, rank, tag}];
  wait_for(lock, into.from, deadline, [&] { return !postings.empty(); });
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

void Switchboard::fail(const Failure& failure) {
  std::lock_guard lock(mutex_);
  if (!failure_) failure_ = failure;
  changed_.notify_all();
}

void Switchboard::leave(int rank) {
  std::lock_guard lock(mutex_);
  left_[size_t(rank)] = true;
  changed_.notify_all();
}

}  // namespace reprise::distributed
