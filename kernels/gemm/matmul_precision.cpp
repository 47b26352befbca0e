// The process's precision and the thread's.
#include "reprise/kernels/gemm/matmul_precision.h"

#include <atomic>
#include <utility>

namespace reprise {
namespace {

std::atomic<MatmulPrecision> of_process{MatmulPrecision::highest};
constexpr uint8_t unset = 0xff;
constinit thread_local uint8_t of_thread = unset;

}  // namespace

MatmulPrecision matmul_precision() {
  return of_thread == unset ? of_process.load(std::memory_order_relaxed) : MatmulPrecision(of_thread);
}

void set_matmul_precision(MatmulPrecision precision) {
  of_process.store(precision, std::memory_order_relaxed);
}

MatmulPrecisionScope::MatmulPrecisionScope(MatmulPrecision precision)
    : outer_(std::exchange(of_thread, uint8_t(precision))) {}

MatmulPrecisionScope::~MatmulPrecisionScope() { of_thread = outer_; }

}  // namespace reprise
