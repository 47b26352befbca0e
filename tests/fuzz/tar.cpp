// tar archives, and the shards that they may be: entries lie inside, names do not lead out.
#include "reprise/io/tar.h"

#include "reprise/data/datasets/shard.h"
#include "reprise/tests/fuzz/fuzz.h"

using namespace reprise;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  std::string path = fuzz::write("x.tar", fuzz::text_of(data, bytes));
  fuzz::reads(bytes, [&] {
    for (const io::TarEntry& entry : io::read_tar(io::File::open(path))) {
      fuzz::require(entry.offset <= bytes && entry.bytes <= bytes - entry.offset, "an entry beyond the end");
      std::string parts = "/" + entry.name + "/";
      fuzz::require(parts.find("/../") == std::string::npos && !parts.starts_with("//"),
                    "a name that leads out");
    }
  });
  fuzz::reads(bytes, [&] {
    for (const data::ShardSample& sample : data::read_shard(path, "label")) {
      fuzz::require(sample.bytes > 0 && !sample.key.empty() && !sample.label.empty(),
                    "a sample that is not whole");
    }
  });
  return 0;
}
