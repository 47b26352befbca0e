// Warp collectives: lanes meet under a mask, the last one computes for all.
#include "reprise/simt/emulator/warp.h"

#include <algorithm>
#include <cstdio>

#include "reprise/simt/emulator/block.h"
#include "reprise/simt/emulator/sanitizer.h"

namespace reprise::simt {
namespace {

std::string hex(uint32_t mask) {
  char text[16];
  std::snprintf(text, sizeof text, "%08x", mask);
  return text;
}

}  // namespace

Meeting& Block::join_meeting(Warp& warp, uint32_t mask, Collective collective, Where where) {
  for (int i = 0; i < warp.meetings_begun; ++i) {
    Meeting& meeting = warp.meetings[size_t(i)];
    if (meeting.mask == mask) {
      if (meeting.collective != collective || meeting.where.here.line() != where.here.line())
        simt::fail(where, "divergent warp collective: lanes ", hex(meeting.arrived), " wait in ",
                   meeting.where.what, " at ", meeting.where.here.file_name(), ":",
                   meeting.where.here.line());
      return meeting;
    }
  }
  Meeting& meeting = warp.meetings[size_t(warp.meetings_begun++)];
  meeting.mask = mask;
  meeting.arrived = 0;
  meeting.collective = collective;
  meeting.where = where;
  meeting.token = warp.meetings_ended % 2;
  return meeting;
}

void Block::end_meeting(Warp& warp, Meeting& meeting, uint32_t goes_on) {
  Meeting ended = meeting;
  meeting = warp.meetings[size_t(--warp.meetings_begun)];
  ++warp.meetings_ended;
  if (ended.collective) {
    sanitizer::Quiet quiet;
    ended.collective(ended.records.data(), ended.arrived);
  }
  for_each_bit(ended.arrived & ~goes_on, [&](unsigned lane) { make_ready(*warp.threads[lane]); });
}

/// After a lane has exited: meetings that waited for no one else end.
void Block::end_meetings_without(Warp& warp) {
  for (int i = 0; i < warp.meetings_begun;) {
    Meeting& meeting = warp.meetings[size_t(i)];
    if (meeting.arrived == (meeting.mask & warp.live()))
      end_meeting(warp, meeting, 0);
    else
      ++i;
  }
}

void Block::meet(uint32_t mask, void* record, Collective collective, bool orders_memory, Where where) {
  Thread& thread = *current_;
  Warp& warp = *thread.warp;
  const uint32_t me = bit(thread.state.lane);
  if (!(mask & me))
    simt::fail(where, "the calling lane ", thread.state.lane, " is not in the mask ", hex(mask));
  ++stats_.warp_operations;
  thread.where = where;
  Meeting& meeting = join_meeting(warp, mask, collective, where);
  meeting.records[thread.state.lane] = record;
  meeting.arrived |= me;
  char* token = &warp.tokens[meeting.token];
  if (orders_memory) sanitizer::release(token);
  if (meeting.arrived == (mask & warp.live())) {
    end_meeting(warp, meeting, me);
    if (order_ == Order::random) reschedule();
  } else {
    thread.mask = mask;
    make_wait(thread, Status::at_collective);
    reschedule();
  }
  if (orders_memory) sanitizer::acquire(token);
}

uint32_t Block::active_lanes() const { return current_->warp->live(); }

namespace {

template <class Record>
Record& record_of(void** lanes, unsigned lane) {
  return *static_cast<Record*>(lanes[lane]);
}

struct Shuffle {
  uint64_t in, out;
  unsigned source;
  Where where;
};

void shuffle_lanes(void** lanes, uint32_t arrived) {
  for_each_bit(arrived, [&](unsigned lane) {
    auto& record = record_of<Shuffle>(lanes, lane);
    if (!(arrived >> record.source & 1))
      fail(record.where, "lane ", lane, " reads lane ", record.source,
           ", which is outside the mask or has exited");
    record.out = record_of<Shuffle>(lanes, record.source).in;
  });
}

struct Vote {
  bool in;
  uint32_t out;
};

void ballot_lanes(void** lanes, uint32_t arrived) {
  uint32_t result = 0;
  for_each_bit(arrived, [&](unsigned lane) { result |= uint32_t(record_of<Vote>(lanes, lane).in) << lane; });
  for_each_bit(arrived, [&](unsigned lane) { record_of<Vote>(lanes, lane).out = result; });
}

struct Reduction {
  int64_t value;
  Reduce op;
};

int64_t reduced(Reduce op, int64_t a, int64_t b) {
  switch (op) {
    case Reduce::add:
      return a + b;
    case Reduce::min:
      return std::min(a, b);
    case Reduce::max:
      return std::max(a, b);
    case Reduce::bit_and:
      return a & b;
    case Reduce::bit_or:
      return a | b;
    case Reduce::bit_xor:
      return a ^ b;
  }
  return 0;
}

void reduce_lanes(void** lanes, uint32_t arrived) {
  const auto first = unsigned(std::countr_zero(arrived));
  const Reduce op = record_of<Reduction>(lanes, first).op;
  int64_t result = record_of<Reduction>(lanes, first).value;
  for_each_bit(arrived & (arrived - 1),
               [&](unsigned lane) { result = reduced(op, result, record_of<Reduction>(lanes, lane).value); });
  for_each_bit(arrived, [&](unsigned lane) { record_of<Reduction>(lanes, lane).value = result; });
}

struct Matching {
  uint64_t in;
  Match out;
};

void match_lanes(void** lanes, uint32_t arrived) {
  for_each_bit(arrived, [&](unsigned lane) {
    auto& record = record_of<Matching>(lanes, lane);
    for_each_bit(arrived, [&](unsigned other) {
      if (record_of<Matching>(lanes, other).in == record.in) record.out.equal |= bit(other);
    });
    record.out.all = record.out.equal == arrived;
  });
}

}  // namespace

uint64_t shuffle(uint32_t mask, uint64_t bits, unsigned source, Where where) {
  Shuffle record{bits, 0, source, where};
  warp_collective(mask, &record, &shuffle_lanes, false, where);
  return record.out;
}

uint32_t ballot(uint32_t mask, bool predicate, Where where) {
  Vote record{predicate, 0};
  warp_collective(mask, &record, &ballot_lanes, false, where);
  return record.out;
}

int64_t reduce(uint32_t mask, int64_t value, Reduce op, Where where) {
  Reduction record{value, op};
  warp_collective(mask, &record, &reduce_lanes, false, where);
  return record.value;
}

Match match(uint32_t mask, uint64_t bits, Where where) {
  Matching record{bits, {}};
  warp_collective(mask, &record, &match_lanes, false, where);
  return record.out;
}

}  // namespace reprise::simt
