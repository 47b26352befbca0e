// The choices that backend.h declares.
#include "reprise/kernels/gemm/backend.h"

#include <atomic>

#include "reprise/core/error.h"
#include "reprise/kernels/gemm/blas.h"

namespace reprise::kernels {
namespace {

std::atomic<GemmBackend> chosen{GemmBackend::own};
std::atomic<bool> tf32{false};

}  // namespace

bool has_blas() { return vendor::blas_is_built(); }

GemmBackend gemm_backend() { return chosen.load(std::memory_order_relaxed); }

void set_gemm_backend(GemmBackend backend) {
  check(backend == GemmBackend::own || has_blas(),
        "set_gemm_backend: this build has no BLAS: configure with -DREPRISE_BLAS=ON");
  chosen.store(backend, std::memory_order_relaxed);
}

bool tf32_allowed() { return tf32.load(std::memory_order_relaxed); }
void allow_tf32(bool allowed) { tf32.store(allowed, std::memory_order_relaxed); }

}  // namespace reprise::kernels
