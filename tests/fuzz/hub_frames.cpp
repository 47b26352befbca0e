// What comes to a port of the hub, in pieces of the size that the first byte says: frames, and what they say.
#include "reprise/distributed/hub/frame.h"
#include "reprise/distributed/hub/handshake.h"
#include "reprise/distributed/hub/host_name.h"
#include "reprise/tests/fuzz/fuzz.h"

using namespace reprise;
using namespace reprise::distributed;

namespace {

void says(const Frame& frame) {
  const std::string bytes = encode(frame);
  fuzz::reads(bytes.size(), [&] {
    const Hello hello = hello_in(frame), again = hello_in(frame_of(hello));
    fuzz::require(hello.rank < hello.ranks && hello.rank == again.rank && hello.proof == again.proof &&
                      hello.host == again.host && hello.host.size() <= longest_host,
                  "a hello that is another when it is written again");
  });
  fuzz::reads(bytes.size(), [&] {
    const Failure failure = failure_in(frame);
    fuzz::require(!name_of(failure.kind).empty() && failure.rank >= 0 && failure.heard >= -1,
                  "a failure that is none");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes == 0) return 0;
  const std::string all(fuzz::text_of(data + 1, bytes - 1));
  std::vector<Frame> frames;
  std::string again;
  fuzz::reads(
      bytes,
      [&] {
        FrameReader reader;
        const size_t piece = 1 + size_t(data[0]);
        for (size_t at = 0; at < all.size(); at += piece) {
          reader.feed(all.substr(at, piece));
          while (auto frame = reader.next()) {
            again += encode(*frame);
            frames.push_back(std::move(*frame));
          }
        }
      },
      int64_t(8 * bytes));  // a field is four bytes at least, and a text
  fuzz::require(all.starts_with(again), "frames that are others when they are written again");
  for (const Frame& frame : frames) says(frame);
  return 0;
}
