// gzip files: what is read is not more than was asked for, and its front is its front.
#include "reprise/io/gzip.h"

#include "reprise/tests/fuzz/fuzz.h"

using namespace reprise;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  constexpr uint64_t most = 1 << 18;  // a string that grows holds two of them, and inflate its window
  std::string out;
  if (!fuzz::reads(bytes, [&] { out = io::gunzip(fuzz::text_of(data, bytes), "input", most); })) return 0;
  fuzz::require(out.size() <= most, "more bytes than were asked for");
  std::string front = io::gunzip_front(fuzz::text_of(data, bytes), "input", 100);
  fuzz::require(front == out.substr(0, 100), "a front that is not the file's");
  fuzz::require(io::gunzip(io::gzip(out), "ours", out.size()) == out, "bytes that do not come back");
  return 0;
}
