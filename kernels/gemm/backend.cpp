// The choices that backend.h declares.
#include "reprise/kernels/gemm/backend.h"

#include <atomic>

#include "reprise/core/error.h"
#include "reprise/kernels/gemm/blas.h"

namespace reprise::kernels {
namespace {

std::atomic<GemmBackend> chosen{GemmBackend::own};

}  // namespace

bool has_blas() { return vendor::blas_is_built(); }

GemmBackend gemm_backend() { return chosen.load(std::memory_order_relaxed); }

void set_gemm_backend(GemmBackend backend) {
  check(backend == GemmBackend::own || has_blas(),
        "set_gemm_backend: this build has no BLAS: configure with -DREPRISE_BLAS=ON");
  chosen.store(backend, std::memory_order_relaxed);
}

}  // namespace reprise::kernels
