// Errors: what check and invariant throw, and what they say.
#include "reprise/core/error.h"

#include <gtest/gtest.h>

#include <functional>

#include "reprise/core/shape.h"

namespace reprise {
namespace {

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) { return error.what(); }
  return "nothing thrown";
}

TEST(Check, ThrowsErrorWithTheJoinedPartsOnlyIfFalse) {
  EXPECT_NO_THROW(check(true, "op: never seen"));
  EXPECT_THROW(check(false, "op"), Error);
  EXPECT_EQ(message_of([] {
              check(false, "op: sizes differ: ", 3, " and ", Shape{2, 4});
            }),
            "op: sizes differ: 3 and (2, 4)");
}

TEST(Invariant, ThrowsBugWhichIsNoError) {
  EXPECT_NO_THROW(invariant(true, "fine"));
  EXPECT_THROW(invariant(false, "broken"), Bug);
  EXPECT_THROW(invariant(false, "broken"), std::logic_error);
  try {
    invariant(false, "broken ", 1);
  } catch (const Error&) {
    FAIL() << "a caller who handles Error would swallow a bug";
  } catch (const Bug& bug) { EXPECT_STREQ(bug.what(), "broken 1"); }
}

TEST(Fail, AlwaysThrowsError) {
  EXPECT_THROW(fail("load: no file ", "a.bin"), Error);
  EXPECT_EQ(message_of([] { fail("load: no file ", "a.bin"); }), "load: no file a.bin");
}

}  // namespace
}  // namespace reprise
