// How exact products of f32 are: as f32 arithmetic is, or less and faster where the device has an instruction for it.
//
//   rp::set_matmul_precision(rp::MatmulPrecision::high);   // PyTorch: torch.set_float32_matmul_precision("high")
#pragma once

#include <cstdint>

namespace reprise {

/// The precision of f32 products and convolutions alone, as in PyTorch; those of f64, bf16 and f16, and so autocast's, have one.
enum class MatmulPrecision : uint8_t {
  highest,  ///< every digit of the factors counts: errors are those of sums in f32
  /// Factors may be rounded. CUDA: to TF32, 11 digits, by cuBLASLt and cuDNN. CPUs with AMX: to 16 digits, as two bf16, so that
  /// three products do for six (kernels/gemm/matrix_unit.h). Anywhere else it changes nothing.
  high
};

/// What holds for this thread: the innermost `MatmulPrecisionScope`'s, or the process's.
MatmulPrecision matmul_precision();

/// For the whole process; starts at `highest`. Backward passes run under what holds when they run, replays of recompute
/// under what held when their region was called.
void set_matmul_precision(MatmulPrecision precision);

/// For this thread, as long as it lives. Scopes nest.
class MatmulPrecisionScope {
 public:
  explicit MatmulPrecisionScope(MatmulPrecision precision);  ///< goes before set_matmul_precision
  ~MatmulPrecisionScope();
  MatmulPrecisionScope(const MatmulPrecisionScope&) = delete;
  MatmulPrecisionScope& operator=(const MatmulPrecisionScope&) = delete;

 private:
  uint8_t outer_;
};

}  // namespace reprise
