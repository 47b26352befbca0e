// Hopper's own PTX on a GPU: barriers in shared memory, TMA, registers; wgmma is in ptx_wgmma_gpu.h.
#pragma once

#include <cuda.h>

#include "reprise/simt/ptx_sm90.h"
#include "reprise/simt/ptx_wgmma_gpu.h"

namespace reprise::simt::ptx {

inline TensorMap make_tensor_map(const TensorTiles& tiles) {
  const char* defect = defect_of(tiles);
  check(!defect, "tensor map: ", defect ? defect : "");
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found;
  auto status =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found);
  check(status == cudaSuccess && found == cudaDriverEntryPointSuccess,
        "cudaGetDriverEntryPointByVersion: the driver has no cuTensorMapEncodeTiled");
  cuuint64_t sizes[max_tile_rank], stride_bytes[max_tile_rank];
  cuuint32_t box[max_tile_rank], steps[max_tile_rank];
  for (int i = 0; i < tiles.rank; ++i) {
    sizes[i] = cuuint64_t(tiles.sizes[i]);
    stride_bytes[i] = cuuint64_t(tiles.strides[i]) * 2;
    box[i] = cuuint32_t(tiles.box[i]);
    steps[i] = 1;
  }
  constexpr CUtensorMapSwizzle swizzles[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                             CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_32B};
  static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) >= alignof(CUtensorMap));
  TensorMap map;
  // The type says only how wide an element is and what is written outside the tensor: zeros, which all types
  // share.
  CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
      reinterpret_cast<CUtensorMap*>(&map), CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, cuuint32_t(tiles.rank),
      const_cast<void*>(tiles.data), sizes, stride_bytes + 1, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      swizzles[unsigned(tiles.swizzle)], CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check(result == CUDA_SUCCESS, "cuTensorMapEncodeTiled: error ", int(result));
  return map;
}

__device__ __forceinline__ void mbarrier_init(Mbarrier* barrier, int arrivals, Here) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(detail::shared_address(barrier)), "r"(arrivals)
               : "memory");
}
__device__ __forceinline__ void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive(Mbarrier* barrier, Here) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(detail::shared_address(barrier)) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect(Mbarrier* barrier, int bytes, Here) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(detail::shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
__device__ __forceinline__ void mbarrier_wait(Mbarrier* barrier, int parity, Here) {
  asm volatile(
      "{\n"
      ".reg .pred ended;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
      "@!ended bra again;\n"
      "}" ::"r"(detail::shared_address(barrier)),
      "r"(parity)
      : "memory");
}

template <int rank>
__device__ __forceinline__ void tma_load(void* to_shared, const TensorMap* map, Mbarrier* barrier,
                                         const int (&at)[rank], Here) {
  const uint32_t to = detail::shared_address(to_shared), complete = detail::shared_address(barrier);
  static_assert(rank >= 2 && rank <= 4, "tma_load is wrapped for ranks 2 to 4");
  if constexpr (rank == 2)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
        "[%2];" ::"r"(to),
        "l"(map), "r"(complete), "r"(at[0]), "r"(at[1])
        : "memory");
  else if constexpr (rank == 3)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
        "%5}], [%2];" ::"r"(to),
        "l"(map), "r"(complete), "r"(at[0]), "r"(at[1]), "r"(at[2])
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
        "l"(map), "r"(complete), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
        : "memory");
}

template <int rank>
__device__ __forceinline__ void tma_store(const TensorMap* map, const void* from_shared,
                                          const int (&at)[rank], Here) {
  const uint32_t from = detail::shared_address(from_shared);
  static_assert(rank >= 2 && rank <= 4, "tma_store is wrapped for ranks 2 to 4");
  if constexpr (rank == 2)
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
                 "r"(from), "r"(at[0]), "r"(at[1])
                 : "memory");
  else if constexpr (rank == 3)
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(from), "r"(at[0]), "r"(at[1]), "r"(at[2])
                 : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
        "r"(from), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
        : "memory");
}
__device__ __forceinline__ void tma_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
template <int pending>
__device__ __forceinline__ void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

template <int registers>
__device__ __forceinline__ void lower_registers() {
  static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256);
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ __forceinline__ void raise_registers() {
  static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256);
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

}  // namespace reprise::simt::ptx
