// Text that comes in pieces, shown as it comes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

/// Shows text in whole characters (UTF-8), and no more of it than is certain to stand before a text that ends it.
class WrittenText {
 public:
  /// `show` gets the text; it ends before the first of `stops`.
  WrittenText(std::vector<std::string> stops, std::function<void(std::string_view)> show);

  /// False once a stop was met: the text has ended then.
  bool add(std::string_view piece);
  /// Shows what was kept back. Call it once, after the last piece.
  void finish();

 private:
  std::vector<std::string> stops_;
  std::function<void(std::string_view)> show_;
  std::string kept_;
  bool ended_ = false;
};

/// The text of ids, such as a tokenizer's `decode`.
using Decode = std::function<std::string(std::span<const int32_t> ids)>;

/// Text that comes as tokens, one by one:
///
///     rp::WrittenTokens text([&](auto ids) { return tokenizer.decode(ids); }, prompt, {"\n\n"},
///                            [](std::string_view piece) { std::cout << piece << std::flush; });
///     rp::generate(model, {prompt}, {.on_token = [&](int64_t, int32_t token) { return text.add(token); }});
///     text.finish();
class WrittenTokens {
 public:
  /// `stops` and `show` are as of WrittenText; of the ids before the first token none is shown. Error if `decode` is empty.
  WrittenTokens(Decode decode, std::span<const int32_t> before, std::vector<std::string> stops,
                std::function<void(std::string_view)> show);

  /// False once a stop was met: the text has ended then.
  bool add(int32_t token);
  /// Shows what was kept back. Call it once, after the last token.
  void finish() { text_.finish(); }

 private:
  Decode decode_;
  std::vector<int32_t> last_;
  WrittenText text_;
};

}  // namespace reprise
