// Which code multiplies matrices on the CPU, our own or a BLAS.
//
//   kernels::set_gemm_backend(kernels::GemmBackend::blas);   // needs a build with -DREPRISE_BLAS=ON
#pragma once

#include <cstdint>

namespace reprise::kernels {

enum class GemmBackend : uint8_t { own, blas };

/// Whether this build has a BLAS.
bool has_blas();

GemmBackend gemm_backend();

/// For the whole process; starts at `own`. Error if the build has no BLAS. With `blas`, f32 and f64 products
/// whose operands have rows or columns of stride 1 go to it, and bits may depend on the number of threads;
/// all others, and every epilogue, stay with our own code. Not to be called while a product runs.
void set_gemm_backend(GemmBackend backend);

}  // namespace reprise::kernels
