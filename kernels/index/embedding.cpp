// Embedding on the CPU. Forward copies rows, or casts them. Backward sorts the positions by their index, so that each row of
// the table belongs to one task and is added up in the order of positions, in f32, and rounded once.
#include "reprise/kernels/index/embedding.h"

#include <array>
#include <cstring>
#include <numeric>

#include "reprise/kernels/cpu/rows.h"
#include "reprise/kernels/index/embedding_checks.h"
#include "reprise/kernels/strided.h"

namespace reprise::kernels {
namespace {

/// The indices in row-major order.
std::vector<int64_t> read_indices(const TensorView& indices) {
  std::vector<int64_t> list(size_t(indices.numel()));
  if (list.empty()) return list;
  std::array<TensorView, 1> view = {indices};
  collapse(view);
  Walk walk(view[0], 0);
  for_each_run(walk, int64_t(list.size()), [&](int64_t offset, int64_t stride, int64_t begin, int64_t count) {
    const int64_t* from = view[0].as<int64_t>() + offset;
    for (int64_t i = 0; i < count; ++i) list[size_t(begin + i)] = from[i * stride];
  });
  return list;
}

/// Where element `i`, row-major, lies in a tensor of this shape.
Dims place_of(int64_t i, const Shape& shape) {
  Dims place = shape;
  for (int dim = shape.size() - 1; dim >= 0; --dim) {
    place[dim] = i % shape[dim];
    i /= shape[dim];
  }
  return place;
}

bool has_unit_stride(const TensorView& weight, const TensorView& y) {
  return weight.size(1) <= 1 || (weight.stride(1) == 1 && y.stride(-1) == 1);
}

template <class T>
void copy_rows(const TensorView& weight, const std::vector<int64_t>& list, const TensorView& y) {
  const int64_t width = weight.size(1);
  const bool contiguous = has_unit_stride(weight, y);
  parallel_for(rows_of(y), row_grain(width), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* from = static_cast<const T*>(weight.data) + list[size_t(i)] * weight.stride(0);
      T* to = row_at<T>(y, i);
      if (contiguous)
        std::memcpy(to, from, size_t(width) * sizeof(T));
      else
        for (int64_t j = 0; j < width; ++j) to[j * y.stride(-1)] = from[j * weight.stride(1)];
    }
  });
}

template <class From, class To>
void cast_rows(const TensorView& weight, const std::vector<int64_t>& list, const TensorView& y) {
  const int64_t width = weight.size(1);
  const bool contiguous = has_unit_stride(weight, y);
  parallel_for(rows_of(y), row_grain(width), [&](int64_t begin, int64_t end) {
    simd::run([&]<int W>() {
      constexpr int L = simd::lanes_of<float, W>;
      for (int64_t i = begin; i < end; ++i) {
        const From* from = static_cast<const From*>(weight.data) + list[size_t(i)] * weight.stride(0);
        To* to = row_at<To>(y, i);
        if (contiguous)
          for_each_vector<L>(width, [&](int64_t j, int64_t left) {
            simd::store_row<float, L>(to + j, simd::load_row<float, L>(from + j, left), left);
          });
        else
          for (int64_t j = 0; j < width; ++j) to[j * y.stride(-1)] = To(float(from[j * weight.stride(1)]));
      }
    });
  });
}

void embedding_cpu(const Stream&, const TensorView& weight, const TensorView& indices, const TensorView& y) {
  constexpr auto op = "embedding";
  check_embedding(op, weight, indices, y, "y");
  check_row_dtypes(op, weight, y);
  std::vector<int64_t> list = read_indices(indices);
  const int64_t table_rows = weight.size(0);
  for (size_t i = 0; i < list.size(); ++i)
    check(list[i] >= 0 && list[i] < table_rows, op, ": index ", list[i], " at ",
          place_of(int64_t(i), indices.shape), " is outside [0, ", table_rows, ")");
  if (weight.dtype == y.dtype)
    return dispatch_all(y.dtype, [&]<class T>() { copy_rows<T>(weight, list, y); });
  dispatch_floating(weight.dtype, op, [&]<class From>() {
    dispatch_floating(y.dtype, op, [&]<class To>() {
      if constexpr (sizeof(From) <= 4 && sizeof(To) <= 4) cast_rows<From, To>(weight, list, y);
    });
  });
}

/// The numbers 0 ... keys.size() - 1, ordered by their key; equal keys keep their order (radix sort by
/// bytes).
std::vector<int64_t> order_by(const std::vector<int64_t>& keys, int64_t key_limit) {
  std::vector<int64_t> order(keys.size()), next(keys.size());
  std::iota(order.begin(), order.end(), 0);
  for (int shift = 0; shift < 63 && (key_limit - 1) >> shift > 0; shift += 8) {
    auto digit = [&](int64_t i) { return size_t(keys[size_t(i)] >> shift & 255); };
    std::array<size_t, 257> start{};
    for (int64_t i : order) ++start[digit(i) + 1];
    std::partial_sum(start.begin(), start.end(), start.begin());
    for (int64_t i : order) next[start[digit(i)]++] = i;
    order.swap(next);
  }
  return order;
}

/// Adds columns [first, last) of the rows of dy at `positions` to one row of dweight.
template <class T, class D>
void add_rows(const TensorView& dy, std::span<const int64_t> positions, D* row, int64_t row_stride,
              int64_t first, int64_t last) {
  using C = Accumulator<D>;
  constexpr int64_t block = kEmbeddingBlock;
  for (int64_t j = first; j < last; j += block) {
    int64_t count = std::min(block, last - j), stride = dy.stride(-1);
    C sum[block];
    for (int64_t k = 0; k < count; ++k) sum[k] = C(row[(j + k) * row_stride]);
    for (int64_t position : positions) {
      const T* from = row_at<const T>(dy, position) + j * stride;
      if (stride == 1 && count == block)
        for (int64_t k = 0; k < block; ++k) sum[k] += C(from[k]);
      else
        for (int64_t k = 0; k < count; ++k) sum[k] += C(from[k * stride]);
    }
    for (int64_t k = 0; k < count; ++k) row[(j + k) * row_stride] = D(sum[k]);
  }
}

/// Tasks are groups of table rows times slices of columns, so that one frequent index does not hold up the
/// rest.
template <class T, class D>
void backward(const TensorView& dy, const std::vector<int64_t>& list, const TensorView& dweight) {
  constexpr int64_t slice = kEmbeddingSlice;
  std::vector<int64_t> order = order_by(list, dweight.size(0));
  std::vector<size_t> starts;  // where in `order` each index begins
  for (size_t i = 0; i < order.size(); ++i)
    if (i == 0 || list[size_t(order[i])] != list[size_t(order[i - 1])]) starts.push_back(i);
  int64_t count = int64_t(starts.size()), width = dweight.size(1), slices = (width + slice - 1) / slice;
  starts.push_back(order.size());
  int64_t group = std::max<int64_t>(1, count / 64), groups = (count + group - 1) / group;
  parallel_tasks(groups * slices, [&](int64_t task) {
    int64_t first = task % slices * slice, last = std::min(width, first + slice);
    int64_t begin = task / slices * group, end = std::min(count, begin + group);
    for (int64_t k = begin; k < end; ++k) {
      std::span<const int64_t> positions(order.data() + starts[size_t(k)],
                                         order.data() + starts[size_t(k) + 1]);
      D* row = static_cast<D*>(dweight.data) + list[size_t(positions[0])] * dweight.stride(0);
      add_rows<T, D>(dy, positions, row, dweight.stride(1), first, last);
    }
  });
}

void embedding_backward_cpu(const Stream&, const TensorView& dy, const TensorView& indices,
                            const TensorView& dweight) {
  constexpr auto op = "embedding_backward";
  check_embedding(op, dweight, indices, dy, "dy");
  check_table_gradient(op, dy, dweight);
  dispatch_floating(dy.dtype, op, [&]<class T>() {
    using C = Accumulator<T>;
    if (dy.numel() == 0) return;
    std::vector<int64_t> list = read_indices(indices);
    if (dweight.dtype == dy.dtype)
      backward<T, T>(dy, list, dweight);
    else
      backward<T, C>(dy, list, dweight);
  });
}

}  // namespace

decltype(embedding) embedding{"embedding", embedding_cpu};
decltype(embedding_backward) embedding_backward{"embedding_backward", embedding_backward_cpu};

}  // namespace reprise::kernels
