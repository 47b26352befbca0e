// Text that comes in pieces, shown as it comes.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::apps {

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

}  // namespace reprise::apps
