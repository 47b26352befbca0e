// A locale that groups digits by dots and writes a decimal comma: the whole program's, while the scope lives.
#pragma once

#include <clocale>
#include <locale>
#include <string>

namespace reprise::testing {

class CommaLocale {
 public:
  CommaLocale()
      : c_(std::setlocale(LC_ALL, nullptr)),
        cpp_(std::locale::global(std::locale(std::locale::classic(), new Punctuation))) {
    for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "tr_TR.UTF-8"})
      if (std::setlocale(LC_ALL, name)) return;  // where none is installed, C++'s own is
  }
  ~CommaLocale() {
    std::locale::global(cpp_);
    std::setlocale(LC_ALL, c_.c_str());
  }
  CommaLocale(const CommaLocale&) = delete;

 private:
  struct Punctuation : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
    std::string do_truename() const override { return "wahr"; }
    std::string do_falsename() const override { return "falsch"; }
  };
  std::string c_;
  std::locale cpp_;
};

/// What `make()` gives under the classic locale and under one that groups digits.
template <class Make>
auto under_both_locales(const Make& make) {
  auto plain = make();
  CommaLocale scope;
  return std::pair(std::move(plain), make());
}

}  // namespace reprise::testing
