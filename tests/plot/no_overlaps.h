// Whether the texts of a picture can all be read: none covers another one or leaves the picture, by its own estimate of their widths.
#pragma once

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

namespace reprise::testing {

struct TextOfPicture {
  std::string text;
  double left, top, right, bottom;
};

/// Those of one <svg> element. Letters of the usual fonts are 0.56 of the font's size wide on average, of capitals and digits too.
inline std::vector<TextOfPicture> texts_of(const std::string& svg) {
  const std::regex element("<text x=\"([-0-9.]+)\" y=\"([-0-9.]+)\" ([^>]*)>([^<]*)</text>");
  std::vector<TextOfPicture> texts;
  for (std::sregex_iterator it(svg.begin(), svg.end(), element), end; it != end; ++it) {
    const std::string attributes = (*it)[3], text = (*it)[4];
    const double x = std::stod((*it)[1]), y = std::stod((*it)[2]), size = 12;
    const double width = 0.56 * size * double(text.size());
    const bool is_end = attributes.find("\"end\"") != std::string::npos;
    const bool is_middle = attributes.find("\"middle\"") != std::string::npos;
    const double left = x - (is_end ? width : is_middle ? width / 2 : 0);
    texts.push_back({text, left, y - 0.75 * size, left + width, y + 0.2 * size});
  }
  return texts;
}

/// Expects it of all pictures in an HTML page.
inline void expect_readable(const std::string& page) {
  const std::regex picture("<svg [^>]*viewBox=\"0 0 ([0-9.]+) ([0-9.]+)\"");
  size_t pictures = 0;
  for (size_t begin = page.find("<svg "); begin != std::string::npos; begin = page.find("<svg ", begin + 1)) {
    const std::string svg = page.substr(begin, page.find("</svg>", begin) - begin);
    std::smatch sizes;
    ASSERT_TRUE(std::regex_search(svg, sizes, picture));
    const double width = std::stod(sizes[1]), height = std::stod(sizes[2]);
    const std::vector<TextOfPicture> texts = texts_of(svg);
    ++pictures;
    for (size_t i = 0; i < texts.size(); ++i) {
      const TextOfPicture& a = texts[i];
      EXPECT_TRUE(a.left >= 0 && a.right <= width && a.top >= 0 && a.bottom <= height) << a.text << " is cut";
      for (size_t j = 0; j < i; ++j) {
        const TextOfPicture& b = texts[j];
        EXPECT_FALSE(a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
            << a.text << " covers " << b.text;
      }
    }
  }
  EXPECT_GT(pictures, 0u);
}

}  // namespace reprise::testing
