// The index beside a shard: whatever it holds, samples lie inside the shard.
#include "reprise/data/datasets/shard.h"
#include "reprise/io/folder.h"
#include "reprise/tests/fuzz/fuzz.h"

using namespace reprise;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  constexpr uint64_t shard_bytes = 4096;
  // The stamp of the shard stands in the input as the two words BYTES and TIME, which no fuzzer would guess.
  static const std::string shard = fuzz::write("x.tar", std::string(shard_bytes, '\0'));
  auto time = std::filesystem::last_write_time(shard).time_since_epoch().count();
  std::string text(fuzz::text_of(data, bytes));
  for (auto [word, value] : {std::pair{"BYTES", std::to_string(shard_bytes)}, {"TIME", std::to_string(time)}})
    if (size_t at = text.find(word); at != std::string::npos)
      text.replace(at, std::string(word).size(), value);
  fuzz::write("x.tar.index", text);
  fuzz::reads(bytes, [&] {
    for (const data::ShardSample& sample : data::read_indexed_shard(shard, "label"))
      fuzz::require(sample.offset <= shard_bytes && sample.bytes <= shard_bytes - sample.offset,
                    "a sample outside");
  });
  return 0;
}
