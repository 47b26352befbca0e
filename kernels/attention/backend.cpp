// The table of backends and the choice among them.
#include "reprise/kernels/attention/backend.h"

#include <array>
#include <atomic>
#include <optional>

#include "reprise/core/cuda/runtime.h"

namespace reprise::kernels {
namespace {

// Filled by static objects before main, so it is a function's static. `automatic` and `reprise` are in every build.
using Backends = std::array<std::optional<AttentionFunctions>, std::size(attention_backends)>;
Backends& backends() {
  static Backends all{AttentionFunctions{}, AttentionFunctions{}};
  return all;
}

std::atomic<AttentionBackend> chosen{AttentionBackend::automatic};
std::atomic<AttentionBackend> used[2]{AttentionBackend::reprise, AttentionBackend::reprise};

}  // namespace

std::string_view name_of(AttentionBackend backend) {
  switch (backend) {
    case AttentionBackend::automatic:
      return "auto";
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

AttentionBackend first_attention_backend() {
  const AttentionBackend backend = chosen;
  if (backend != AttentionBackend::automatic) return backend;
  const bool on_gpu = has_attention_backend(AttentionBackend::sm90) && !cuda::is_emulated();
  return on_gpu ? AttentionBackend::sm90 : AttentionBackend::reprise;
}

AttentionFunctions attention_functions(AttentionBackend backend) { return *backends()[size_t(backend)]; }

}  // namespace reprise::kernels
