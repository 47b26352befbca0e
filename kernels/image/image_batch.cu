// Batches of pictures on CUDA: a thread makes 16 bytes of y. Bytes: y once, images once (from cache for the other
// channels), and those of the partner where it is mixed in.
#include "reprise/kernels/image/image_batch.h"

#include "reprise/kernels/cuda/pack.cuh"
#include "reprise/kernels/elementwise/normal.h"

namespace reprise::kernels {
namespace {

using namespace device;

constexpr int block_threads = 256;

/// The arguments as a kernel takes them; what is absent is null.
struct Batch {
  const uint8_t* images;
  const float* table;
  const int32_t *boxes, *mix_boxes;
  const int64_t* noise;
  const float* lambdas;
  uint64_t noise_seed;
  int64_t channels, height, width;

  /// v[b, c, row, column].
  __device__ float value(int64_t b, int64_t c, int64_t row, int64_t column) const {
    if (boxes && is_inside(boxes + 4 * b, row, column))
      return noise ? normal(uint64_t(noise[b]), (c * height + row) * width + column) : 0.0f;
    return table[256 * c + images[((b * height + row) * width + column) * channels + c]];
  }
  /// y[b, c, row, column].
  __device__ float mixed(int64_t b, int64_t c, int64_t row, int64_t column) const {
    if (mix_boxes && is_inside(mix_boxes + 4 * (b / 2), row, column)) return value(b ^ 1, c, row, column);
    const float lambda = lambdas ? lambdas[b / 2] : 1.0f, own = value(b, c, row, column);
    return lambda == 1 ? own : lambda * own + (1 - lambda) * value(b ^ 1, c, row, column);
  }

 private:
  __device__ float normal(uint64_t offset, int64_t i) const {
    float numbers[4];
    standard_normals(philox_block(noise_seed, offset, uint64_t(i) / 4), numbers);
    float number = numbers[0];
#pragma unroll
    for (int k = 1; k < 4; ++k)  // an index known only now would send the numbers to memory
      if (i % 4 == k) number = numbers[k];
    return number;
  }
};

/// `packs` of N columns each.
template <int N, class T>
__global__ void __launch_bounds__(block_threads)
    image_batch_kernel(const __grid_constant__ Batch batch, T* y, int64_t packs) {
  const int64_t i = int64_t(blockIdx.x) * block_threads + threadIdx.x;
  if (i >= packs) return;
  const int64_t line = i * N / batch.width, column = i * N - line * batch.width;
  const int64_t plane = line / batch.height, row = line - plane * batch.height;
  const int64_t b = plane / batch.channels, c = plane - b * batch.channels;
  Pack<T, N> pack;
#pragma unroll
  for (int k = 0; k < N; ++k) pack.at[k] = from<T>(batch.mixed(b, c, row, column + k));
  store_pack(y + i * N, pack);
}

void image_batch_cuda(const Stream& stream, const ImageBatchArguments& v) {
  check_image_batch(v);
  if (v.y.numel() == 0) return;
  const Batch batch{.images = v.images.as<uint8_t>(),
                    .table = v.table.as<float>(),
                    .boxes = v.boxes ? v.boxes.as<int32_t>() : nullptr,
                    .mix_boxes = v.mix_boxes ? v.mix_boxes.as<int32_t>() : nullptr,
                    .noise = v.noise ? v.noise.as<int64_t>() : nullptr,
                    .lambdas = v.lambdas ? v.lambdas.as<float>() : nullptr,
                    .noise_seed = v.noise_seed,
                    .channels = v.y.size(1),
                    .height = v.y.size(2),
                    .width = v.y.size(3)};
  dispatch_floating(v.y.dtype, "image_batch", [&]<class T>() {
    auto run = [&]<int N>(std::integral_constant<int, N>) {
      const int64_t packs = v.y.numel() / N;
      simt::launch({.name = "image_batch",
                    .grid = grid_of("image_batch", ceil_div<int64_t>(packs, block_threads)),
                    .block = block_threads,
                    .stream = stream},
                   image_batch_kernel<N, Element<T>>, batch, data_of<T>(v.y), packs);
    };
    if (rows_fit_packs(v.y))
      run(std::integral_constant<int, pack_size<T>>{});
    else
      run(std::integral_constant<int, 1>{});
  });
}

const OnCuda image_batch_on_cuda{image_batch, image_batch_cuda};

}  // namespace
}  // namespace reprise::kernels
