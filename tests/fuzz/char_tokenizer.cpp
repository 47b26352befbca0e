// The character tokenizer's file: what loads can be saved and loaded again, and decodes what it encodes.
#include "reprise/io/text/char_tokenizer.h"

#include <numeric>

#include "reprise/io/file.h"
#include "reprise/tests/fuzz/fuzz.h"

using namespace reprise;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  std::string path = fuzz::write("vocab.json", fuzz::text_of(data, bytes));
  if (!fuzz::reads(bytes, [&] { io::CharTokenizer::load(path); })) return 0;
  io::CharTokenizer tokenizer = io::CharTokenizer::load(path);
  tokenizer.save(fuzz::folder());
  io::CharTokenizer again = io::CharTokenizer::load(path);
  fuzz::require(again.vocab_size() == tokenizer.vocab_size(), "characters were lost");
  std::vector<int32_t> ids(size_t(tokenizer.vocab_size()));
  std::iota(ids.begin(), ids.end(), 0);
  std::string all = tokenizer.decode(ids);
  fuzz::require(again.decode(ids) == all && again.encode(all) == ids, "the vocabulary changed");
  return 0;
}
