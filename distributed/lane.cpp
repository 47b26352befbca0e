#include "reprise/distributed/lane.h"

#include <algorithm>
#include <map>

#include "reprise/distributed/nccl/nccl_channel.h"

namespace reprise::distributed {
namespace {

// Who waits for a call knows who has not made it; who waits for payload may wait for a rank that itself waits. So the
// former give up first, and what they say is what all hear.
constexpr std::chrono::milliseconds payload_grace{1000};

struct Seen {
  std::vector<int> ranks;
  std::string description;
};

// A line for each of the different calls.
std::string desync(const std::string& group, int64_t sequence, const std::map<int, std::string>& calls) {
  std::vector<Seen> seen;
  for (const auto& [rank, description] : calls) {
    auto same =
        std::find_if(seen.begin(), seen.end(), [&](const Seen& s) { return s.description == description; });
    if (same == seen.end()) same = seen.insert(seen.end(), Seen{{}, description});
    same->ranks.push_back(rank);
  }
  size_t widest = 0;
  for (const Seen& s : seen) widest = std::max(widest, ranks_in_words(s.ranks).size());
  TextStream text;
  text << "desync at call " << sequence << " of group " << group << ":";
  for (const Seen& s : seen) {
    const std::string ranks = ranks_in_words(s.ranks);
    text << "\n  " << ranks << std::string(widest - ranks.size(), ' ') << ": " << s.description;
  }
  if (sequence > 1)
    text << "\n  call " << sequence - 1 << (sequence > 2 ? " and those before agree" : " agrees");
  return text.str();
}

}  // namespace

Lane::Lane(std::shared_ptr<World> world, std::vector<int> members, uint64_t key,
           std::chrono::milliseconds timeout)
    : world_(std::move(world)),
      members_(std::move(members)),
      rank_(int(std::ranges::find(members_, world_->rank()) - members_.begin())),
      key_(key),
      timeout_(timeout) {}

Lane::Lane(const Lane& host, const Stream& stream, NcclChannel* channel)
    : Lane(host.world_, host.members_, host.key_, host.timeout_) {
  stream_ = stream;
  channel_ = channel;
}

std::vector<int> Lane::neighbours() const {
  if (size() == 1) return {};
  const int left = (rank_ + size() - 1) % size(), right = (rank_ + 1) % size();
  return left == right ? std::vector{left} : std::vector{left, right};
}

std::vector<Lane::Place> Lane::announce(const Call& call, const std::vector<int>& ranks) {
  std::vector<Place> places;
  for (int to : ranks) {
    const Place place{world_rank(to), world_->next_call_with(world_rank(to))};
    world_->transport()->post(place.rank, tag(calls, uint64_t(place.number)), note_of(call));
    places.push_back(place);
  }
  return places;
}

void Lane::compare(const Call& call, const std::vector<Place>& places) {
  const Note expected = expected_note(call);
  std::map<int, std::string> seen{{world_rank(rank_), description_of(call)}};
  std::vector<int> others;
  const auto deadline = Clock::now() + timeout_;
  for (const Place& place : places) {
    const Note note = take(place, deadline);
    seen[place.rank] = description_in(note, call);
    if (agree(note, expected))
      seen[place.rank] = description_of(call);
    else
      others.push_back(place.rank);
  }
  if (others.empty()) return;
  const bool alone = size() > 2 && others.size() == 2 && seen[others[0]] == seen[others[1]];
  throw TransportError({FailureKind::mismatch, alone ? world_rank(rank_) : others[0],
                        desync(call.group, call.sequence, seen)});
}

Note Lane::take(const Place& place, Clock::time_point deadline) {
  {
    std::lock_guard lock(mutex_);
    awaited_ = place.rank;
  }
  const Note note = world_->transport()->take(place.rank, tag(calls, uint64_t(place.number)), deadline);
  world_->note_call_of(place.rank, place.number, note);
  std::lock_guard lock(mutex_);
  awaited_.reset();
  return note;
}

std::optional<int> Lane::awaited() const {
  std::lock_guard lock(mutex_);
  return awaited_;
}

void Lane::exchange(std::span<const Transport::Send> sends, std::span<const Transport::Receive> receives) {
  move(payload, sends, receives);
}

void Lane::send(int to, const void* data, size_t bytes) {
  const Transport::Send one{to, data, bytes};
  move(pair_payload, {&one, 1}, {});
}

void Lane::receive(int from, void* data, size_t bytes) {
  const Transport::Receive one{from, data, bytes};
  move(pair_payload, {}, {&one, 1});
}

// How much NCCL sends is its own affair; a ring's share is counted.
void Lane::sum(DType dtype, int64_t count, void* data) {
  world_->meter()->bytes += 2 * (size() - 1) * count * int64_t(size_of(dtype)) / size();
  channel_->sum(stream_, dtype, count, data, end_of_payload());
}

void Lane::scatter_sum(DType dtype, int64_t count, const void* in, void* out) {
  world_->meter()->bytes += (size() - 1) * count * int64_t(size_of(dtype));
  channel_->scatter_sum(stream_, dtype, count, in, out, end_of_payload());
}

void Lane::all_gather(const void* in, void* out, size_t bytes) {
  world_->meter()->bytes += (size() - 1) * int64_t(bytes);
  if (bytes) channel_->all_gather(stream_, in, out, bytes, end_of_payload());
}

// As around a ring, to the rank before the root.
void Lane::broadcast(void* data, size_t bytes, int root) {
  if ((rank_ + 1) % size() != root) world_->meter()->bytes += int64_t(bytes);
  if (bytes) channel_->broadcast(stream_, data, bytes, root, end_of_payload());
}

Clock::time_point Lane::end_of_payload() const { return Clock::now() + timeout_ + payload_grace; }

void Lane::move(Tag kind, std::span<const Transport::Send> sends,
                std::span<const Transport::Receive> receives) {
  const bool on_device = channel_ != nullptr;  // whose ranks are the group's
  std::vector<Transport::Send> out;
  std::vector<Transport::Receive> in;
  for (Transport::Send s : sends) {
    if (s.bytes) out.push_back({on_device ? s.to : world_rank(s.to), s.data, s.bytes});
    world_->meter()->bytes += int64_t(s.bytes);
  }
  for (Transport::Receive r : receives)
    if (r.bytes) in.push_back({on_device ? r.from : world_rank(r.from), r.data, r.bytes});
  if (out.empty() && in.empty()) return;
  const auto deadline = end_of_payload();
  if (on_device)
    channel_->exchange(stream_, out, in, deadline);
  else
    world_->transport()->exchange(tag(kind, key_), out, in, deadline);
}

}  // namespace reprise::distributed
