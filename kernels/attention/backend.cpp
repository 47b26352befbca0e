// The table of backends and the choice among them.
#include "reprise/kernels/attention/backend.h"

#include <array>
#include <atomic>
#include <optional>

namespace reprise::kernels {
namespace {

// Filled by static objects before main, so it is a function's static.
std::array<std::optional<AttentionFunctions>, 3>& backends() {
  static std::array<std::optional<AttentionFunctions>, 3> all{AttentionFunctions{}};
  return all;
}

std::atomic<AttentionBackend> chosen{AttentionBackend::reprise};
std::atomic<AttentionBackend> used[2]{AttentionBackend::reprise, AttentionBackend::reprise};

}  // namespace

std::string_view name_of(AttentionBackend backend) {
  switch (backend) {
    case AttentionBackend::reprise:
      return "reprise";
    case AttentionBackend::sm90:
      return "sm90";
    case AttentionBackend::cudnn:
      return "cudnn";
  }
  throw Bug("attention: unknown backend");
}

void set_attention_backend(AttentionBackend backend) {
  check(has_attention_backend(backend), "attention: this build has no backend ", name_of(backend));
  chosen = backend;
}

AttentionBackend attention_backend() { return chosen; }

AttentionBackend attention_backend_used(AttentionPass pass) { return used[size_t(pass)]; }
void note_attention_backend(AttentionPass pass, AttentionBackend backend) { used[size_t(pass)] = backend; }

bool has_attention_backend(AttentionBackend backend) { return backends()[size_t(backend)].has_value(); }

AttentionOnBackend::AttentionOnBackend(AttentionBackend backend, AttentionFunctions functions) {
  backends()[size_t(backend)] = functions;
}

AttentionFunctions chosen_attention_functions() { return *backends()[size_t(chosen.load())]; }

}  // namespace reprise::kernels
