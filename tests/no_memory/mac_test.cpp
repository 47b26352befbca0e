// libcrypto without memory: a lack of this process, not a MAC that another one got wrong.
#include "reprise/distributed/hub/mac.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "reprise/tests/no_memory/failing_new.h"

namespace reprise::distributed {
namespace {

std::atomic<bool> is_counted{
    false};  // while this test runs: libcrypto goes on without some of what it asks for

bool fails() { return is_counted && testing::next_fails(); }
void* allocate(size_t bytes, const char*, int) { return fails() ? nullptr : std::malloc(bytes); }
void* reallocate(void* data, size_t bytes, const char*, int) {
  return fails() ? nullptr : std::realloc(data, bytes);
}
void release(void* data, const char*, int) { std::free(data); }

// libcrypto takes them only before it has taken memory itself; a build without it has no such function.
const bool counts_libcrypto = [] {
  auto* set = reinterpret_cast<int (*)(decltype(&allocate), decltype(&reallocate), decltype(&release))>(
      dlsym(RTLD_DEFAULT, "CRYPTO_set_mem_functions"));
  return set && set(allocate, reallocate, release) == 1;
}();

TEST(NoMemoryForMacs, IsNoErrorOfAnotherProcess) {
  if (!has_mac() || !counts_libcrypto) GTEST_SKIP() << "needs libcrypto, whose memory can be counted";
  const std::string key = "a key that is too long to lie within a string", text = "text";
  const std::string expected = hmac_sha256(key, text);
  is_counted = true;
  int64_t k = 0, failed = 0;
  for (;; ++k) {
    testing::fail_allocation(k, testing::Failing::one);
    bool is_made = true;
    try {
      EXPECT_EQ(hmac_sha256(key, text), expected);
    } catch (const std::bad_alloc&) { is_made = false; }  // and no Error
    const bool has_failed = testing::failed_allocations() > 0;
    testing::fail_no_allocation();
    failed += !is_made;
    if (!has_failed) break;
  }
  is_counted = false;
  EXPECT_GE(failed, 3) << "of " << k;  // the text's own, and libcrypto's
}

}  // namespace
}  // namespace reprise::distributed
