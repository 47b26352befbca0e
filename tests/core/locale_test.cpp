// A program may choose its locale: messages are the same under each.
#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "reprise/core/memory.h"
#include "reprise/core/tensor.h"
#include "reprise/tests/support/locale.h"

namespace reprise {
namespace {

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) { return error.what(); }
  return "nothing thrown";
}

TEST(Locale, OfTheTestGroupsDigits) {
  testing::CommaLocale scope;
  std::ostringstream out;
  out << 1234567 << ' ' << 0.5;
  EXPECT_EQ(out.str(), "1.234.567 0,5");
}

TEST(Locale, ChangesNoMessage) {
  std::string expected = "op: 1234567, 1234.5, 1, (1000, 20000), f32, cuda:1000";
  auto [plain, grouped] = testing::under_both_locales([] {
    return message_of([] {
      fail("op: ", 1234567, ", ", 1234.5, ", ", true, ", ", Shape{1000, 20000}, ", ", DType::f32, ", ",
           Device::cuda(1000));
    });
  });
  EXPECT_EQ(plain, expected);
  EXPECT_EQ(grouped, expected);
}

TEST(Locale, ChangesNoMessageOfTensorsAndMemory) {
  const std::vector<std::function<void()>> mistakes = {
      [] {
        Tensor::empty({1000, 2000}).item();
      },
      [] {
        Tensor::from<float>({1, 2}, {123456});
      },
      [] { (void)bool(Tensor::empty({12345})); },
      [] {
        Tensor::empty({INT64_MAX / 2, 1000});
      },
      [] { allocator(Device::cpu()).allocate(SIZE_MAX - 5, MemoryCategory::data); },
      [] { Device::parse("cuda:123456"); }};
  for (const auto& mistake : mistakes) {
    auto [plain, grouped] = testing::under_both_locales([&] { return message_of(mistake); });
    EXPECT_EQ(plain, grouped);
    EXPECT_NE(plain, "nothing thrown");
  }
}

}  // namespace
}  // namespace reprise
