// Images to phases and back, a row at a time.
#include "reprise/kernels/conv/phase_images.h"

#include <algorithm>
#include <vector>

#include "reprise/core/dtype.h"
#include "reprise/core/parallel.h"
#include "reprise/kernels/convert_row.h"

namespace reprise::kernels::conv2d_detail {
namespace {

/// Calls body(place, row, begin, end, column) for each row of each phase of one channel, which begins at `place`
/// there: its elements [begin, end) are pixels of `row`, the first of them of `column`; row -1 is outside.
template <class Body>
void for_each_row(const PhaseImages& p, int64_t height, int64_t width, Body&& body) {
  for (int64_t a = 0; a < p.stride.height; ++a)
    for (int64_t b = 0; b < p.stride.width; ++b)
      for (int64_t i = 0; i < p.size.height; ++i) {
        const int64_t row = i * p.stride.height + a - p.border.height, first = b - p.border.width;
        const int64_t step = p.stride.width;
        const int64_t begin = std::min(p.size.width, first >= 0 ? 0 : (-first + step - 1) / step);
        const int64_t end = std::clamp((width - first + step - 1) / step, begin, p.size.width);
        const int64_t place = (a * p.stride.width + b) * p.phase_numel() + i * p.size.width;
        body(place, row >= 0 && row < height ? row : -1, begin, end, first + begin * step);
      }
}

template <class T>
void split_channel(const T* from, int64_t height, int64_t width, const PhaseImages& p, T* to) {
  for_each_row(p, height, width, [&](int64_t place, int64_t row, int64_t begin, int64_t end, int64_t column) {
    T* out = to + place;
    if (row < 0) return void(std::fill_n(out, p.size.width, T(0.0f)));
    const T* in = from + row * width + column;
    std::fill_n(out, begin, T(0.0f));
    if (p.stride.width == 1)
      std::copy_n(in, end - begin, out + begin);
    else
      for (int64_t j = begin; j < end; ++j, in += p.stride.width) out[j] = *in;
    std::fill(out + end, out + p.size.width, T(0.0f));
  });
}

template <class T>
void join_channel(const T* from, const PhaseImages& p, T* to, int64_t height, int64_t width) {
  for_each_row(p, height, width, [&](int64_t place, int64_t row, int64_t begin, int64_t end, int64_t column) {
    if (row < 0) return;
    T* out = to + row * width + column;
    for (int64_t j = begin; j < end; ++j, out += p.stride.width) *out = from[place + j];
  });
}

/// Calls body(begin, end) for the channels of all images, on all threads.
template <class Body>
void for_each_channels(const TensorView& images, const PhaseImages& p, Body&& body) {
  const int64_t grain = std::max<int64_t>(1, (1 << 15) / std::max<int64_t>(1, p.channel_stride()));
  parallel_for(images.size(0) * images.size(1), grain, body);
}

}  // namespace

void split_images(const TensorView& images, const PhaseImages& p, DType dtype, void* to) {
  const int64_t height = images.size(2), width = images.size(3), pixels = height * width;
  dispatch_floating(dtype, "conv2d", [&]<class T>() {
    const bool rounds = images.dtype != dtype;
    for_each_channels(images, p, [&](int64_t begin, int64_t end) {
      std::vector<T> rounded(rounds ? size_t(pixels) : 0);
      for (int64_t channel = begin; channel < end; ++channel) {
        if (rounds) convert_row(images.as<float>() + channel * pixels, rounded.data(), pixels);
        const T* from = rounds ? rounded.data() : images.as<T>() + channel * pixels;
        split_channel(from, height, width, p, static_cast<T*>(to) + channel * p.channel_stride());
      }
    });
  });
}

void join_images(const void* from, const PhaseImages& p, const TensorView& images) {
  const int64_t height = images.size(2), width = images.size(3);
  dispatch_floating(images.dtype, "conv2d", [&]<class T>() {
    for_each_channels(images, p, [&](int64_t begin, int64_t end) {
      for (int64_t channel = begin; channel < end; ++channel)
        join_channel(static_cast<const T*>(from) + channel * p.channel_stride(), p,
                     images.as<T>() + channel * height * width, height, width);
    });
  });
}

}  // namespace reprise::kernels::conv2d_detail
