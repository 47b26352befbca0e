#include "reprise/distributed/lane.h"

#include <cstring>
#include <map>

namespace reprise::distributed {
namespace {

// Who waits for a call knows who has not made it; who waits for payload may wait for a rank that itself waits. So the
// former give up first, and what they say is what all hear.
constexpr std::chrono::milliseconds payload_grace{1000};

struct Seen {
  std::vector<int> ranks;
  std::string description;
};

std::string ranks_in_words(const std::vector<int>& ranks) {
  TextStream text;
  text << (ranks.size() == 1 ? "rank" : "ranks");
  for (int rank : ranks) text << ' ' << rank;
  return text.str();
}

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

Lane::Lane(std::shared_ptr<Transport> transport, std::vector<int> members, int rank, uint64_t key,
           std::chrono::milliseconds timeout)
    : transport_(std::move(transport)),
      members_(std::move(members)),
      rank_(rank),
      key_(key),
      timeout_(timeout) {}

std::vector<int> Lane::neighbours() const {
  if (size() == 1) return {};
  const int left = (rank_ + size() - 1) % size(), right = (rank_ + 1) % size();
  return left == right ? std::vector{left} : std::vector{left, right};
}

void Lane::announce(const Call& call) {
  for (int to : neighbours()) transport_->post(world_rank(to), tag(calls), note_of(call));
}

void Lane::compare(const Call& call, const std::string& group) {
  const Note mine = note_of(call);
  std::map<int, std::string> seen{{world_rank(rank_), call.description}};
  std::vector<int> others;
  const auto deadline = Clock::now() + timeout_;
  for (int from : neighbours()) {
    const Note note = transport_->take(world_rank(from), tag(calls), deadline);
    seen[world_rank(from)] = note == mine ? call.description : description_in(note);
    if (note != mine) others.push_back(world_rank(from));
  }
  if (others.empty()) return;
  const bool alone = size() > 2 && others.size() == 2 && seen[others[0]] == seen[others[1]];
  throw TransportError(
      {FailureKind::mismatch, alone ? world_rank(rank_) : others[0], desync(group, call.sequence, seen)});
}

void Lane::announce_to(int to, const Call& call) {
  transport_->post(world_rank(to), tag(pair_calls), note_of(call));
}

void Lane::compare_from(int from, const Call& call, const std::string& group) {
  const Note note = transport_->take(world_rank(from), tag(pair_calls), Clock::now() + timeout_);
  if (note == note_of(call)) return;
  throw TransportError({FailureKind::mismatch, world_rank(from),
                        desync(group, call.sequence,
                               {{world_rank(from), "sends " + description_in(note)},
                                {world_rank(rank_), "receives " + call.description}})});
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

void Lane::move(Tag kind, std::span<const Transport::Send> sends,
                std::span<const Transport::Receive> receives) {
  std::vector<Transport::Send> out;
  std::vector<Transport::Receive> in;
  for (Transport::Send s : sends)
    if (s.bytes) out.push_back({world_rank(s.to), s.data, s.bytes});
  for (Transport::Receive r : receives)
    if (r.bytes) in.push_back({world_rank(r.from), r.data, r.bytes});
  if (out.empty() && in.empty()) return;
  transport_->exchange(tag(kind), out, in, Clock::now() + timeout_ + payload_grace);
}

}  // namespace reprise::distributed
