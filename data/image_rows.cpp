#include "reprise/data/image_rows.h"

#include "reprise/core/stream.h"
#include "reprise/kernels/image/image_batch.h"

namespace reprise::data {
namespace {

// i32 (B, 4): first row, first column, rows, columns.
template <class List, class BoxOf>
Tensor boxes_of(const List& list, Device device, const BoxOf& box_of) {
  std::vector<int32_t> numbers;
  for (const auto& one : list) {
    const io::Box& box = box_of(one);
    for (int64_t number : {box.top, box.left, box.height, box.width}) numbers.push_back(int32_t(number));
  }
  return Tensor::from(numbers, {int64_t(list.size()), 4}, device);
}

template <class T, class List, class NumberOf>
Tensor numbers_of(const List& list, Device device, const NumberOf& number_of) {
  std::vector<T> numbers;
  for (const auto& one : list) numbers.push_back(T(number_of(one)));
  return Tensor::from(numbers, {int64_t(list.size())}, device);
}

}  // namespace

Tensor table_on(const Pipeline& pipeline, Device device) {
  return Tensor::from(pipeline.table(), {pipeline.options().channels, 256}, device);
}

Tensor image_tensor(const Tensor& rows, const Tensor& table, const RowEffects& effects) {
  const Device device = table.device();
  Tensor on_device = rows.to(device);
  Tensor images = Tensor::empty({rows.size(0), rows.size(3), rows.size(1), rows.size(2)}, DType::f32, device);
  kernels::ImageBatchArguments arguments{
      .images = on_device.view(), .table = table.view(), .y = images.view()};
  Tensor boxes, noise, lambdas, mix_boxes;  // until the kernel is launched
  if (!effects.erasures.empty()) {
    boxes = boxes_of(effects.erasures, device, [](const Erasure& one) { return one.box; });
    arguments.boxes = boxes.view();
  }
  if (!effects.erasures.empty() && effects.noise) {
    noise = numbers_of<int64_t>(effects.erasures, device, [](const Erasure& one) { return one.offset; });
    arguments.noise = noise.view();
    arguments.noise_seed = effects.noise_seed;
  }
  if (!effects.mixes.empty()) {
    // Outside of a box the pixels of CutMix are the row's own: its lambda is for targets.
    lambdas =
        numbers_of<float>(effects.mixes, device, [](const Mix& one) { return one.cutmix ? 1 : one.lambda; });
    mix_boxes = boxes_of(effects.mixes, device, [](const Mix& one) { return one.box; });
    arguments.lambdas = lambdas.view();
    arguments.mix_boxes = mix_boxes.view();
  }
  kernels::image_batch(current_stream(device), arguments);
  return images;
}

}  // namespace reprise::data
