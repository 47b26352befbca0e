// vocab.json and merges.txt of GPT-2's byte pairs. The input is both, with a zero byte between; one that
// starts with
// '+' holds more tokens and merges for a small vocabulary that is there, so that the fuzzer need not find 256
// bytes.
#include "reprise/io/text/gpt2_bpe.h"

#include "reprise/io/file.h"
#include "reprise/io/json.h"
#include "reprise/io/text/byte_alphabet.h"
#include "reprise/io/utf8.h"
#include "reprise/tests/fuzz/fuzz.h"

using namespace reprise;

namespace {

std::string all_bytes_vocabulary() {
  std::string text = "{";
  for (int byte = 0; byte < 256; ++byte)
    text +=
        io::json_quote(io::bytes_to_alphabet(std::string(1, char(byte)))) + ":" + std::to_string(byte) + ",";
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  static const std::string base = all_bytes_vocabulary();
  std::string_view input = fuzz::text_of(data, bytes);
  size_t middle = std::min(input.find('\0'), input.size());
  std::string vocab(input.substr(0, middle)), merges(input.substr(std::min(middle + 1, input.size())));
  if (vocab.starts_with("+")) vocab = base + vocab.substr(1);
  std::string vocab_path = fuzz::write("vocab.json", vocab), merges_path = fuzz::write("merges.txt", merges);
  if (!fuzz::reads(vocab.size() + merges.size(), [&] { io::Gpt2Bpe(vocab_path, merges_path); })) return 0;

  io::Gpt2Bpe tokenizer(vocab_path, merges_path);
  tokenizer.save(fuzz::folder());
  io::Gpt2Bpe again(vocab_path, merges_path);
  std::string text = io::bytes_as_utf8(merges) + " <|endoftext|>";
  std::vector<int32_t> ids = tokenizer.encode(text);
  fuzz::require(tokenizer.decode(ids) == text, "decoding is not the inverse of encoding");
  fuzz::require(again.encode(text) == ids, "the saved tokenizer is another");
  return 0;
}
