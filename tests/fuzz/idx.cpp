// IDX files: as many bytes as the sizes say. The first byte chooses the rank.
#include "reprise/io/arrays/idx.h"

#include "reprise/tests/fuzz/fuzz.h"

using namespace reprise;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes == 0) return 0;
  int rank = data[0] & 1 ? 3 : 1;
  io::IdxArray array;
  int64_t most = int64_t(bytes) * 1032 * 3;  // of a gzipped one, deflate's best, in a string that grows
  bool is_read = fuzz::reads(
      bytes, [&] { array = io::parse_idx(std::string(fuzz::text_of(data + 1, bytes - 1)), "input", rank); },
      most);
  if (!is_read) return 0;
  uint64_t count = 1;
  for (int64_t size : array.shape) count *= uint64_t(size);
  fuzz::require(int(array.shape.size()) == rank && array.bytes.size() == count,
                "bytes that the sizes do not say");
  io::IdxArray again = io::parse_idx(io::write_idx(array), "ours", rank);
  fuzz::require(again.shape == array.shape && again.bytes == array.bytes, "an array that does not come back");
  return 0;
}
