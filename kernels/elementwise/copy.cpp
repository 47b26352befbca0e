// Copies between any strides and dtypes. Bytes: each element is read once and written once; a copy that keeps
// the dtype moves runs with memcpy where both sides are contiguous, and transposes in square blocks where
// they cross.
#include "reprise/kernels/elementwise/copy.h"

#include <cstring>

#include "reprise/kernels/strided.h"

namespace reprise::kernels {
namespace {

constexpr int64_t kBlock = 16;  // rows and columns of one transposed block: 16 cache lines on each side

/// y = x for runs that are contiguous on both sides; x and y are collapsed together.
template <class T>
void copy_runs(const TensorView& x, const TensorView& y) {
  parallel_for(y.numel(), 4 * kPiece, [&](int64_t begin, int64_t end) {
    Walk from(x, begin), to(y, begin);
    for (int64_t run; begin < end; begin += run) {
      run = std::min(end - begin, from.left());
      std::memcpy(static_cast<T*>(y.data) + to.offset(), static_cast<const T*>(x.data) + from.offset(),
                  size_t(run) * sizeof(T));
      from.advance(run);
      to.advance(run);
    }
  });
}

/// One block of `rows` x `columns`: y is contiguous along columns, x along rows.
template <class T>
void transpose_block(const T* x, int64_t x_stride, T* y, int64_t y_stride, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) y[i * y_stride + j] = x[j * x_stride + i];
}

/// y = x where y's last dimension is contiguous and x's dimension `row_dim` is. Tasks are bands of rows of
/// one matrix.
template <class T>
void copy_transposed(const TensorView& x, const TensorView& y, int row_dim) {
  int column_dim = y.rank() - 1;
  int64_t rows = y.shape[row_dim], columns = y.shape[column_dim];
  auto without_matrix = [&](TensorView view) { return select(select(view, column_dim, 0), row_dim, 0); };
  TensorView x_rest = without_matrix(x), y_rest = without_matrix(y);
  std::array<TensorView, 2> rest = {x_rest, y_rest};
  collapse(rest);
  int64_t band = std::max(kBlock, kPiece / columns / kBlock * kBlock), bands = (rows + band - 1) / band;
  auto copy_band = [&](int64_t task) {
    Walk from(rest[0], task / bands), to(rest[1], task / bands);
    int64_t row_begin = task % bands * band, row_end = std::min(rows, row_begin + band);
    const T* x_data = static_cast<const T*>(x.data) + from.offset();
    T* y_data = static_cast<T*>(y.data) + to.offset();
    for (int64_t i = row_begin; i < row_end; i += kBlock)
      for (int64_t j = 0; j < columns; j += kBlock)
        transpose_block(x_data + i + j * x.strides[column_dim], x.strides[column_dim],
                        y_data + i * y.strides[row_dim] + j, y.strides[row_dim],
                        std::min(kBlock, row_end - i), std::min(kBlock, columns - j));
  };
  if (y.numel() <= kPiece)
    for (int64_t task = 0; task < rest[1].numel() * bands; ++task) copy_band(task);
  else
    parallel_tasks(rest[1].numel() * bands, copy_band);
}

template <class T>
void copy_strided(const TensorView& x, const TensorView& y) {
  parallel_for(y.numel(), kPiece, [&](int64_t begin, int64_t end) {
    Walk from(x, begin), to(y, begin);
    for (int64_t run; begin < end; begin += run) {
      run = std::min(end - begin, from.left());
      const T* source = static_cast<const T*>(x.data) + from.offset();
      T* target = static_cast<T*>(y.data) + to.offset();
      for (int64_t i = 0, sx = from.stride(), sy = to.stride(); i < run; ++i) target[i * sy] = source[i * sx];
      from.advance(run);
      to.advance(run);
    }
  });
}

/// The dimension along which x is contiguous, or -1.
int contiguous_dim(const TensorView& x) {
  for (int dim = 0; dim < x.rank(); ++dim)
    if (x.strides[dim] == 1) return dim;
  return -1;
}

template <class T>
void copy_same(const TensorView& x, const TensorView& y) {
  int last = y.rank() - 1, x_dim = contiguous_dim(x);
  bool y_runs = y.strides[last] == 1;
  if (y_runs && x.strides[last] == 1) return copy_runs<T>(x, y);
  if (y_runs && x_dim >= 0 && y.shape[x_dim] >= kBlock / 2) return copy_transposed<T>(x, y, x_dim);
  copy_strided<T>(x, y);
}

void copy_cast(const TensorView& x, const TensorView& y) {
  dispatch_compute(x.dtype, [&]<class C>() {
    parallel_for(y.numel(), kPiece, [&](int64_t begin, int64_t end) {
      Reader<C> reader(x, begin);
      Writer<C> writer(y, begin);
      for_each_chunk(begin, end, [&](int64_t, int64_t count) { writer.write(reader.read(count), count); });
    });
  });
}

void copy_cpu(const Stream&, const TensorView& x, const TensorView& y) {
  check_same_shape("copy", x, y);
  if (y.numel() == 0) return;
  std::array<TensorView, 2> views = {x, y};
  order_like_last(views);
  collapse(views);
  if (x.dtype != y.dtype) return copy_cast(views[0], views[1]);
  dispatch_all(y.dtype, [&]<class T>() { copy_same<T>(views[0], views[1]); });
}

void fill_cpu(const Stream&, const TensorView& y, double value) {
  if (y.numel() == 0) return;
  TensorView view = y;
  order_like_last({&view, 1});
  collapse({&view, 1});
  dispatch_all(y.dtype, [&]<class T>() {
    T element = convert<T>(value);
    parallel_for(view.numel(), 4 * kPiece, [&](int64_t begin, int64_t end) {
      Walk walk(view, begin);
      for_each_run(walk, end - begin, [&](int64_t offset, int64_t stride, int64_t, int64_t run) {
        T* to = static_cast<T*>(view.data) + offset;
        if (stride == 1)
          std::fill_n(to, run, element);
        else
          for (int64_t i = 0; i < run; ++i) to[i * stride] = element;
      });
    });
  });
}

}  // namespace

decltype(copy) copy{"copy", copy_cpu};
decltype(fill) fill{"fill", fill_cpu};

}  // namespace reprise::kernels
