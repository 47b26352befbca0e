// Gather and scatter along the last dimension, one-hot codes, and arange. Indices are checked before anything
// is written.
#include "reprise/kernels/index/index.h"

#include <atomic>

#include "reprise/kernels/index/index_checks.h"

namespace reprise::kernels {
void check_indices(const char* op, const TensorView& index, int64_t limit) {
  std::atomic<bool> all_inside = true;
  auto first_outside = [&](int64_t begin, int64_t end, int64_t& value) {
    Reader<int64_t> reader(index, begin);
    int64_t place = -1;
    for_each_chunk(begin, end, [&](int64_t at, int64_t count) {
      const int64_t* indices = reader.read(count);
      for (int64_t i = 0; i < count && place < 0; ++i)
        if (indices[i] < 0 || indices[i] >= limit) place = at + i, value = indices[i];
    });
    return place;
  };
  parallel_for(index.numel(), kPiece, [&](int64_t begin, int64_t end) {
    int64_t value = 0;
    if (first_outside(begin, end, value) >= 0) all_inside = false;
  });
  if (all_inside) return;
  int64_t value = 0, place = first_outside(0, index.numel(), value);
  Dims position = index.shape;
  for (int dim = index.rank() - 1; dim >= 0; --dim) {
    position[dim] = place % index.shape[dim];
    place /= index.shape[dim];
  }
  fail(op, ": index ", value, " at ", position, " is outside [0, ", limit, ")");
}

namespace {

/// Calls `body(data offset, values offset, index offset)` for each row along the last dimension.
template <class Body>
void for_each_row(const TensorView& data, const TensorView& index, const TensorView& values, Body&& body) {
  std::array<TensorView, 3> rows = {data, index, values};
  for (TensorView& view : rows)
    if (view.shape.back() > 1)
      view = slice(view, -1, 0, 1);
    else if (view.shape.back() == 0)
      return;
  int64_t row_grain = std::max<int64_t>(1, kPiece / index.shape.back());
  parallel_for(rows[0].numel(), row_grain, [&](int64_t begin, int64_t end) {
    std::array<TensorView, 3> leading = rows;
    collapse(leading);
    Walk data_walk(leading[0], begin), index_walk(leading[1], begin), values_walk(leading[2], begin);
    for (int64_t row = begin; row < end; ++row) {
      body(data_walk.offset(), index_walk.offset(), values_walk.offset());
      data_walk.advance(1);
      index_walk.advance(1);
      values_walk.advance(1);
    }
  });
}

/// Calls `body.operator()<T, I>()` with the element type and the index type.
template <class Body>
void dispatch_types(DType element, DType index, Body&& body) {
  dispatch_all(element, [&]<class T>() {
    if (index == DType::i64)
      body.template operator()<T, int64_t>();
    else
      body.template operator()<T, int32_t>();
  });
}

void gather_cpu(const Stream&, const TensorView& x, const TensorView& index, const TensorView& y) {
  check_index_views("gather", x, index, y);
  if (y.numel() == 0) return;
  check_indices("gather", index, x.shape.back());
  dispatch_types(x.dtype, index.dtype, [&]<class T, class I>() {
    for_each_row(x, index, y, [&](int64_t x_row, int64_t index_row, int64_t y_row) {
      const T* from = x.as<T>() + x_row;
      const I* at = index.as<I>() + index_row;
      T* to = y.as<T>() + y_row;
      for (int64_t i = 0; i < y.shape.back(); ++i)
        to[i * y.strides.back()] = from[at[i * index.strides.back()] * x.strides.back()];
    });
  });
}

// put(element of y, value), in the order of i.
template <class Put>
void scatter_by(const char* op, const TensorView& x, const TensorView& index, const TensorView& y,
                const Put& put) {
  check_index_views(op, y, index, x);
  if (x.numel() == 0) return;
  check_indices(op, index, y.shape.back());
  dispatch_types(x.dtype, index.dtype, [&]<class T, class I>() {
    for_each_row(y, index, x, [&](int64_t y_row, int64_t index_row, int64_t x_row) {
      const T* from = x.as<T>() + x_row;
      const I* at = index.as<I>() + index_row;
      T* to = y.as<T>() + y_row;
      for (int64_t i = 0; i < x.shape.back(); ++i)
        put(to[at[i * index.strides.back()] * y.strides.back()], from[i * x.strides.back()]);
    });
  });
}

void scatter_add_cpu(const Stream&, const TensorView& x, const TensorView& index, const TensorView& y) {
  scatter_by("scatter_add", x, index, y, []<class T>(T& sum, T value) {
    using C = ComputeType<T>;
    if constexpr (std::is_integral_v<T>)
      sum = convert<T>(int64_t(uint64_t(sum) + uint64_t(value)));  // wraps
    else
      sum = convert<T>(C(C(sum) + C(value)));
  });
}

void scatter_cpu(const Stream&, const TensorView& x, const TensorView& index, const TensorView& y) {
  scatter_by("scatter", x, index, y, []<class T>(T& element, T value) { element = value; });
}

void one_hot_cpu(const Stream&, const TensorView& index, const TensorView& y) {
  check_one_hot(index, y);
  if (y.numel() == 0) return;
  const int64_t classes = y.shape.back();
  check_indices("one_hot", index, classes);
  parallel_for(index.numel(), std::max<int64_t>(1, kPiece / classes), [&](int64_t begin, int64_t end) {
    Reader<int64_t> reader(index, begin);
    Writer<int64_t> writer(y, begin * classes);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t hot = *reader.read(1);
      for_each_chunk(0, classes, [&](int64_t first, int64_t count) {
        int64_t* codes = writer.next(count);
        std::fill_n(codes, count, int64_t(0));
        if (hot >= first && hot < first + count) codes[hot - first] = 1;
        writer.commit(count);
      });
    }
  });
}

void arange_cpu(const Stream&, const TensorView& y) {
  parallel_for(y.numel(), kPiece, [&](int64_t begin, int64_t end) {
    Writer<int64_t> writer(y, begin);
    for_each_chunk(begin, end, [&](int64_t first, int64_t count) {
      int64_t* numbers = writer.next(count);
      for (int64_t i = 0; i < count; ++i) numbers[i] = first + i;
      writer.commit(count);
    });
  });
}

}  // namespace

decltype(gather) gather{"gather", gather_cpu};
decltype(scatter_add) scatter_add{"scatter_add", scatter_add_cpu};
decltype(scatter) scatter{"scatter", scatter_cpu};
decltype(one_hot) one_hot{"one_hot", one_hot_cpu};
decltype(arange) arange{"arange", arange_cpu};

}  // namespace reprise::kernels
