// The record of a rank's calls, where it is written, what several of them say together; and the line that tells of a long wait.
#include "reprise/distributed/recorder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "reprise/distributed/flight/flight.h"
#include "reprise/distributed/flight/records.h"
#include "reprise/distributed/flight/trace.h"
#include "reprise/io/file.h"
#include "reprise/io/json.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::expect_error;
using testing::Ranks;
using testing::run_ranks;
using testing::TempFolder;
using namespace std::chrono_literals;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Call call_of(int64_t sequence, const std::string& label) {
  Call call = make_call("all_reduce", "sum", Tensor::zeros({2, 3}), label);
  call.group = "world";
  call.sequence = sequence;
  return call;
}

TEST(Recorder, KeepsTheLastCallsOfAGroup) {
  CallTrack track;
  std::vector<int64_t> numbers;
  for (int64_t sequence = 1; sequence <= 5000; ++sequence)
    numbers.push_back(track.issue(call_of(sequence, "")));
  for (int64_t number : {numbers[0], numbers[4500]}) track.begin(number);
  track.end(numbers[4500]);
  const auto calls = track.calls();
  ASSERT_EQ(calls.size(), CallTrack::most_calls);
  EXPECT_EQ(calls.front().call.sequence, 905);
  EXPECT_EQ(calls.back().call.sequence, 5000);
  for (const RecordedCall& one : calls) {
    EXPECT_EQ(one.done > 0, one.call.sequence == 4501);
    EXPECT_GT(one.issued, 0);
  }
}

TEST(Recorder, KeepsTheLastComputationsAndHowFarRank0sClockIsAhead) {
  TempFolder folder;
  Recorder recorder(1, 2, [] { return -0.25; });
  recorder.set_folder(folder.path());
  for (int step = 0; step < 5000; ++step) recorder.add({"\"forward\"", step, 1.5, 2.25});
  ASSERT_NE(recorder.write("why"), "");
  const CallRecord record = read_records(folder.path()).at(1);
  EXPECT_EQ(record.clock_offset, -0.25);
  EXPECT_EQ(record.reason, "why");
  EXPECT_TRUE(record.calls.empty());
  ASSERT_EQ(record.computations.size(), Recorder::most_computations);
  EXPECT_EQ(record.computations.front().step, 904);
  EXPECT_EQ(record.computations.back().step, 4999);
  EXPECT_EQ(record.computations.back().name, "\"forward\"");
  EXPECT_EQ(record.computations.back().begun, 1.5);
  EXPECT_EQ(record.computations.back().done, 2.25);
}

TEST(Recorder, WritesALinePerCallOfGroupsThatLive) {
  TempFolder folder;
  Recorder recorder(2, 4);
  EXPECT_EQ(recorder.write("no folder"), "");
  recorder.set_folder(folder / "run/flight");
  const auto track = recorder.add_group();
  recorder.add_group()->issue(call_of(1, "of a group that has gone"));
  track->begin(track->issue(call_of(7, "a \"label\"")));
  const std::string path = recorder.write("why\n");
  EXPECT_EQ(path, folder / "run/flight/rank-2.jsonl");
  const std::string text = io::read_file(path);
  EXPECT_TRUE(text.starts_with("{\"rank\":2,\"ranks\":4,\"pid\":")) << text;
  EXPECT_TRUE(has(text, "\"reason\":\"why\\n\"}\n")) << text;
  EXPECT_TRUE(has(
      text,
      "{\"group\":\"world\",\"sequence\":7,\"operation\":\"all_reduce\",\"words\":\"sum\",\"dtype\":\"f32\","
      "\"shape\":[2,3],\"label\":\"a \\\"label\\\"\",\"issued\":1"))
      << text;
  EXPECT_TRUE(has(text, ",\"done\":null}\n")) << text;
  EXPECT_FALSE(has(text, "has gone")) << text;
}

TEST(Recorder, IsSilentWhereItCannotWrite) {
  TempFolder folder;
  folder.write("file", "");
  Recorder recorder(0, 1);
  recorder.set_folder(folder / "file/flight");
  EXPECT_EQ(recorder.write("why"), "");
}

class Flight : public ::testing::TestWithParam<Ranks> {
 protected:
  void SetUp() override {
    for (const std::string& outcome :
         run_ranks(GetParam(), 3, [&](ProcessGroup& group) { return differ(group); }))
      EXPECT_TRUE(has(outcome, "mismatch: desync at call 3 of group world:")) << outcome;
  }
  std::string differ(ProcessGroup& group) {
    group.record_to(folder_.path());
    group.barrier();
    const auto part = group.subgroup({0, 1, 2}, "part");
    part->barrier();
    if (group.rank() < 2) {
      Tensor x = Tensor::zeros({5});
      group.rank() == 0 ? group.send(x, 1).wait() : group.recv(x, 0).wait();
    }
    group.barrier();
    const auto written = [&] {
      return detail::join("\n  calls: ", folder_ / "rank-", group.rank(), ".jsonl");
    };
    try {
      group.all_reduce(Tensor::zeros({group.rank() == 1 ? 4 : 3}), ReduceOp::sum, "x").wait();
    } catch (const DistributedError& error) {
      return std::string(name_of(error.kind())) + ": " + error.what() +
             (has(error.what(), written()) ? "" : " no file");
    }
    return "no error";
  }
  TempFolder folder_;
};

TEST_P(Flight, NamesTheFirstDifference) {
  const std::string text = compare_records(folder_.path());
  for (const char* part : {"3 of 3 ranks have left a record\n", "rank 2: desync at call 3 of group world:",
                           "group part\n  rank 0: last call #1, done: barrier\n", "group world\n",
                           "  rank 1: last call #3, ", ": all_reduce sum f32 (4,) \"x\"\n",
                           "  first call on which they differ: #3\n    ranks 0 2: all_reduce sum f32 (3,) "
                           "\"x\"\n    rank 1: all_reduce sum f32 (4,) \"x\"\n",
                           "group world from 0 to 1\n  rank 0: last call #1, done: send from 0 to 1 f32 "
                           "(5,)\n  rank 1: last call #1, done: send"})
    EXPECT_TRUE(has(text, part)) << "no \"" << part << "\" in\n" << text;
  EXPECT_FALSE(has(text, "last call #3, done")) << text;
}

TEST_P(Flight, NamesWhoIsBehindAndWhoLeftNoRecord) {
  std::filesystem::remove(folder_ / "rank-2.jsonl");
  const std::string path = folder_ / "rank-1.jsonl";
  std::string record = io::read_file(path);
  record.resize(record.rfind('\n', record.size() - 2) + 1);  // without its last line
  folder_.write("rank-1.jsonl", record);
  const std::string text = compare_records(folder_.path());
  for (const char* part : {"2 of 3 ranks have left a record\n", "rank 2: no record: it was killed",
                           "  the calls that they have in common agree\n"})
    EXPECT_TRUE(has(text, part)) << text;
}

INSTANTIATE_TEST_SUITE_P(Transports, Flight, ::testing::ValuesIn(testing::kinds_of_ranks()),
                         [](const auto& of) { return name_of(of.param); });

// By hand: rank 1 has made a call fewer, and rank 0 has one that is not done.
TEST(Flights, OfRanksThatAreBehind) {
  TempFolder folder;
  for (int rank : {0, 1}) {
    Recorder recorder(rank, 2);
    recorder.set_folder(folder.path());
    const auto track = recorder.add_group();
    for (int64_t sequence = 1; sequence <= 3 - rank; ++sequence) {
      const int64_t number = track->issue(call_of(sequence, ""));
      track->begin(number);
      if (sequence < 2 || (rank == 1 && sequence == 2)) track->end(number);
    }
    EXPECT_NE(recorder.write("why"), "");
  }
  const std::string text = compare_records(folder.path());
  for (const char* part :
       {"rank 0: last call #3, begun, not done: all_reduce", "rank 1: last call #2, done: all_reduce",
        "  first call that is not done on all: #2\n    rank 1: done\n    rank 0: not done\n",
        "  behind: rank 1, without call #3 of the others\n"})
    EXPECT_TRUE(has(text, part)) << "no \"" << part << "\" in\n" << text;
}

// By hand: two ranks of a call that rank 0 waits 0.25 s for, and one that is not done. Rank 1's clock is 100 s behind, and it says so. The
// times are those of 2026, which have no room for microseconds in a float.
TEST(Flights, AreATraceWithARowPerRank) {
  TempFolder folder;
  auto call = [](int64_t number, const char* issued, const char* begun, const char* done) {
    return detail::join(
        R"({"group":"world","sequence":)", number,
        R"(,"operation":"all_reduce","words":"sum","dtype":"f32","shape":[3],"label":"x","issued":)", issued,
        R"(,"begun":)", begun, R"(,"done":)", done, "}\n");
  };
  folder.write("rank-0.jsonl", R"({"rank":0,"ranks":2,"reason":""})"
                               "\n" +
                                   call(1, "1790000000.5", "1790000000.75", "1790000001.000001") +
                                   call(2, "1790000000.5", "null", "null"));
  folder.write("rank-1.jsonl",
               R"({"rank":1,"ranks":2,"clock_offset":100,"reason":""})"
               "\n" +
                   call(1, "1789999900.5", "1789999900.5", "1789999902.5") +
                   R"({"computation":"backward","step":7,"begun":1789999900.25,"done":1789999900.5})"
                   "\n");
  const std::string text = trace_of_records(folder.path());
  struct Slice {
    std::string name;
    int64_t rank = -1, row = -1, begin = -1, length = -1;
    bool operator==(const Slice&) const = default;
  };
  std::vector<Slice> slices;
  std::vector<std::string> names;
  io::JsonReader json(text, "trace");
  json.object([&](const std::string& key) {
    if (key != "traceEvents") return json.skip();
    json.array([&] {
      Slice slice;
      std::string kind;
      json.object([&](const std::string& field) {
        if (field == "ph") return void(kind = json.string());
        if (field == "name") return void(slice.name = json.string());
        if (field == "pid") return void(slice.rank = json.integer());
        if (field == "tid") return void(slice.row = json.integer());
        if (field == "ts") return void(slice.begin = json.integer());
        if (field == "dur") return void(slice.length = json.integer());
        if (field != "args" || kind != "M") return json.skip();
        json.object([&](const std::string&) { names.push_back(json.string()); });
      });
      if (kind == "X") slices.push_back(slice);
    });
  });
  json.end();
  const std::string name = "all_reduce sum f32 (3,) \"x\"";
  EXPECT_EQ(slices,
            (std::vector<Slice>{{name, 0, 1, 250000, 250000},
                                {name, 0, 2, 500000, 250001},
                                {name, 0, 1, 250000, 2000000},  // not begun: to the last time in the records
                                {"backward", 1, 0, 0, 250000},
                                {name, 1, 1, 250000, 0},
                                {name, 1, 2, 250000, 2000000}}));
  EXPECT_EQ(names, (std::vector<std::string>{"rank 0", "world, waiting", "world", "rank 1", "computation",
                                             "world, waiting", "world"}));
}

TEST(Flights, OfNoRecordOrADamagedOneAreErrors) {
  TempFolder folder;
  expect_error([&] { compare_records(folder / "nothing"); }, "flight: no record of calls in ");
  expect_error([&] { trace_of_records(folder / "nothing"); }, "flight: no record of calls in ");
  folder.write("rank-0.jsonl", "{\"rank\":0,\"ranks\":2,\"reason\":\"\"}\n{\"group\":");
  expect_error([&] { compare_records(folder.path()); }, "rank-0.jsonl");
  folder.write("rank-0.jsonl", "{\"rank\":-1,\"ranks\":2,\"reason\":\"\"}\n");
  expect_error([&] { compare_records(folder.path()); }, "rank -1 of 2");
}

// Rank 2 calls two seconds after the others: its neighbours say so, once each.
TEST(WaitNotices, SayOnceWhoHasNotMadeTheCall) {
  std::mutex mutex;
  std::vector<std::string> lines;
  const GroupOptions options{.timeout = 60s, .notice_after = 300ms, .tell = [&](const std::string& line) {
                               std::lock_guard lock(mutex);
                               lines.push_back(line);
                             }};
  run_ranks(
      Ranks::threads, 4,
      [](ProcessGroup& group) -> std::string {
        group.barrier();
        if (group.rank() == 2) std::this_thread::sleep_for(2s);
        group.all_reduce(Tensor::zeros({3}), ReduceOp::sum, "bucket 3").wait();
        return "";
      },
      options);
  std::ranges::sort(lines);
  ASSERT_EQ(lines.size(), 3u);
  for (size_t i : {0u, 1u, 2u})
    EXPECT_TRUE(has(lines[i], detail::join("rank ", i < 2 ? i : 3, " has waited for 0."))) << lines[i];
  EXPECT_TRUE(
      has(lines[0], " s in all_reduce #2 of group world (bucket 3): its neighbours have made the call"))
      << lines[0];
  for (size_t i : {1u, 2u}) EXPECT_TRUE(has(lines[i], ": rank 2 has not made the call")) << lines[i];
}

}  // namespace
}  // namespace reprise::distributed
