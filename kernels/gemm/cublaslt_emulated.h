// The emulator's model of cuBLASLt, so that the file that ships runs without a GPU. It refuses what the library
// documents as unsupported, keeps what is set in its descriptors, and multiplies on the CPU: sums and epilogues in f32
// (f64 for f64), one rounding into each result. Used in builds with REPRISE_CUDA=EMULATED only.
#pragma once

#include <cstdint>
#include <vector>

namespace reprise::kernels::emulated {

enum class CublasLtModel : uint8_t {
  none,   ///< there is no such library: our own tiles multiply
  plain,  ///< one algorithm, which sums over K in order
  /// What the library may do as well: each epilogue and type is answered with algorithms of another order of sums, some
  /// run only the epilogue that was asked for, and for some sizes none runs all; a K of 1 is "invalid".
  unkind
};
/// REPRISE_EMULATOR_CUBLASLT=none|plain|unkind; `none` if it is not set.
CublasLtModel cublaslt_model();

/// Calls of cublasLtMatmul that have been enqueued.
int64_t cublaslt_calls();

/// Elements from one column to the next in the matrices of a call, in the library's words.
struct CublasLtLeadings {
  int64_t a, b, d;
};
/// While it lives, keeps those of the calls that this thread enqueues.
class CublasLtRecord {
 public:
  CublasLtRecord();
  ~CublasLtRecord();
  CublasLtRecord(const CublasLtRecord&) = delete;
  std::vector<CublasLtLeadings> calls;
};

}  // namespace reprise::kernels::emulated
