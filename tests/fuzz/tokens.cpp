// Token files (.bin): no id beyond the vocabulary ever comes out. The first byte chooses the vocabulary.
#include "reprise/io/text/token_dataset.h"
#include "reprise/tests/fuzz/fuzz.h"

using namespace reprise;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes == 0) return 0;
  int64_t vocab_size = data[0] == 255 ? 65536 : 1 + data[0] * 256;
  std::string path = fuzz::write("x.bin", fuzz::text_of(data + 1, bytes - 1));
  fuzz::reads(bytes - 1, [&] {
    io::TokenDataset tokens = io::TokenDataset::open(path, vocab_size);
    std::vector<int64_t> chunk(size_t(std::min<int64_t>(tokens.size(), 1000)));
    for (int64_t at = 0; at + int64_t(chunk.size()) <= tokens.size(); at += int64_t(chunk.size())) {
      tokens.read(at, chunk);
      for (int64_t id : chunk) fuzz::require(id >= 0 && id < vocab_size, "an id beyond the vocabulary");
    }
  });
  return 0;
}
