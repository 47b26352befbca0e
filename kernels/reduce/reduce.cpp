// Reductions. x is seen as (kept, reduced) in one of two ways, both cut into pieces that depend on the views
// alone:
//
//   by rows      each result is reduced from its own sequence of numbers; long sequences are cut, and the
//   pieces'
//                partial results combined in order;
//   by columns   where the innermost dimension in memory is kept: whole rows are added to a row of results,
//   for a
//                piece of the rows at a time.
//
// Sums of floats run in many short f32 chains (at most 64 additions each), whose totals are added in f64: the
// error stays at a few f32 roundings for any length. Bytes: x is read once.
#include "reprise/kernels/reduce/reduce.h"

#include <limits>
#include <vector>

#include "reprise/kernels/elementwise/copy.h"
#include "reprise/kernels/elementwise/cpu_math.h"
#include "reprise/kernels/reduce/split.h"

namespace reprise::kernels {
namespace {

using Add = CpuFormulas::Add;
using Maximum = CpuFormulas::Maximum;
using Minimum = CpuFormulas::Minimum;

/// What partial results are kept in: f64 for sums of floats, else the compute type.
template <class C, class Op>
using Partial = std::conditional_t<std::is_same_v<C, float> && std::is_same_v<Op, Add>, double, C>;

template <class C, class Op>
constexpr C identity() {
  using Limits = std::numeric_limits<C>;
  if constexpr (std::is_same_v<Op, Add>)
    return C(0);
  else if constexpr (std::is_same_v<Op, Maximum>)
    return std::is_integral_v<C> ? Limits::lowest() : -Limits::infinity();
  else
    return std::is_integral_v<C> ? Limits::max() : Limits::infinity();
}

constexpr int kChains =
    64;  // independent chains in a row's reduction: enough to hide the latency of an addition

/// Reduces n <= kChunk contiguous numbers: in kChains chains, on every instruction set alike, or in one if
/// they are few.
template <class C, class Op>
C reduce_contiguous(const C* x, int64_t n) {
  if (n < kChains) {
    C result = identity<C, Op>();
    for (int64_t i = 0; i < n; ++i) result = Op{}(result, x[i]);
    return result;
  }
  C chains[kChains];
  simd::run([&]<int W>() {
    using V = simd::Vector<C, W>;
    V sums[kChains / W];
    for (int k = 0; k < kChains / W; ++k) sums[k] = simd::load<V>(x + k * W);
    int64_t i = kChains;
    for (; i + kChains <= n; i += kChains)
      for (int k = 0; k < kChains / W; ++k) sums[k] = Op{}(sums[k], simd::load<V>(x + i + k * W));
    for (int k = 0; k < kChains / W; ++k) simd::store(chains + k * W, sums[k]);
    for (int k = 0; i < n; ++i, ++k) chains[k] = Op{}(chains[k], x[i]);
    for (int half = kChains / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k) chains[k] = Op{}(chains[k], chains[k + half]);
  });
  return chains[0];
}

/// Rows of at most kPiece numbers: a task reduces whole rows.
template <class C, class Op>
void reduce_short_rows(const TensorView& x, int64_t length, const TensorView& y) {
  int64_t row_grain = std::max<int64_t>(1, kPiece / length);
  parallel_for(y.numel(), row_grain, [&](int64_t begin, int64_t end) {
    using P = Partial<C, Op>;
    Reader<C> reader(x, begin * length);
    Writer<P> writer(y, begin);
    int64_t rows_at_once = std::max<int64_t>(1, kChunk / length);
    P results[kChunk];
    for (int64_t row = begin; row < end; row += rows_at_once) {
      int64_t rows = std::min(rows_at_once, end - row);
      if (length <= kChunk) {
        const C* numbers = reader.read(rows * length);
        for (int64_t r = 0; r < rows; ++r)
          results[r] = P(reduce_contiguous<C, Op>(numbers + r * length, length));
      } else {
        results[0] = identity<P, Op>();
        for_each_chunk(0, length, [&](int64_t, int64_t count) {
          results[0] = Op{}(results[0], P(reduce_contiguous<C, Op>(reader.read(count), count)));
        });
      }
      writer.write(results, rows);
    }
  });
}

/// Longer rows: a task reduces one piece of one row.
template <class C, class Op>
void reduce_long_rows(const TensorView& x, int64_t length, const TensorView& y) {
  using P = Partial<C, Op>;
  int64_t rows = y.numel(), pieces = (length + kPiece - 1) / kPiece;
  std::vector<P> partials(size_t(rows * pieces));
  parallel_tasks(rows * pieces, [&](int64_t task) {
    int64_t row = task / pieces, begin = task % pieces * kPiece, end = std::min(length, begin + kPiece);
    Reader<C> reader(x, row * length + begin);
    P sum = identity<P, Op>();
    for_each_chunk(begin, end, [&](int64_t, int64_t count) {
      sum = Op{}(sum, P(reduce_contiguous<C, Op>(reader.read(count), count)));
    });
    partials[size_t(task)] = sum;
  });
  Writer<P> writer(y, 0);
  for (int64_t row = 0; row < rows; ++row) {
    P sum = identity<P, Op>();
    for (int64_t piece = 0; piece < pieces; ++piece) sum = Op{}(sum, partials[size_t(row * pieces + piece)]);
    writer.write(&sum, 1);
  }
}

/// sums[j] = op(sums[j], rows[0][j], ... rows[count - 1][j]) for j < n; four rows a pass, so that `sums` is
/// read and written a quarter as often.
template <class C, class Op>
void add_rows(C* sums, const C* const (&rows)[4], int count, int64_t n) {
  simd::run([&]<int W>() {
    using V = simd::Vector<C, W>;
    int64_t j = 0;
    if (count == 4)
      for (; j + W <= n; j += W) {
        V pair0 = Op{}(simd::load<V>(rows[0] + j), simd::load<V>(rows[1] + j));
        V pair1 = Op{}(simd::load<V>(rows[2] + j), simd::load<V>(rows[3] + j));
        simd::store(sums + j, Op{}(simd::load<V>(sums + j), Op{}(pair0, pair1)));
      }
    if (count == 4)
      for (; j < n; ++j)
        sums[j] = Op{}(sums[j], Op{}(Op{}(rows[0][j], rows[1][j]), Op{}(rows[2][j], rows[3][j])));
    for (int r = 0; r < count && count < 4; ++r)
      for (j = 0; j < n; ++j) sums[j] = Op{}(sums[j], rows[r][j]);
  });
}

/// Column sums of one block: `rows` rows from `first_row` of `reduced`, `width` <= kChunk contiguous columns.
template <class C, class Op>
void reduce_block(const TensorView& block, const TensorView& reduced, int64_t first_row, int64_t n_rows,
                  int64_t width, C* sums) {
  std::fill_n(sums, width, identity<C, Op>());
  C buffers[4][kChunk];
  const C* rows[4];
  Walk walk(reduced, first_row);
  dispatch_all(block.dtype, [&]<class T>() {
    for (int64_t row = 0; row < n_rows; row += 4) {
      int count = int(std::min<int64_t>(4, n_rows - row));
      for (int r = 0; r < count; ++r) {
        const T* from = static_cast<const T*>(block.data) + walk.offset();
        walk.advance(1);
        if constexpr (std::is_same_v<T, C>) {
          rows[r] = from;
        } else {
          convert_row(from, buffers[r], width);
          rows[r] = buffers[r];
        }
      }
      add_rows<C, Op>(sums, rows, count, width);
    }
  });
}

/// Each place has a matrix of (reduced..., width) with contiguous columns; y is (places..., width).
template <class C, class Op>
void reduce_columns(TensorView places, const TensorView& reduced, int64_t width, const TensorView& y) {
  using P = Partial<C, Op>;
  collapse({&places, 1});
  int64_t n_rows = reduced.numel(), n_outer = places.numel();
  int64_t pieces = (n_rows + kRowsOfColumns - 1) / kRowsOfColumns, blocks = (width + kChunk - 1) / kChunk;
  std::vector<C> partials(size_t(n_outer * pieces * width));
  auto partial_row = [&](int64_t at, int64_t piece) {
    return partials.data() + (at * pieces + piece) * width;
  };
  auto reduce_task = [&](int64_t task) {
    int64_t block = task % blocks, piece = task / blocks % pieces, at = task / blocks / pieces;
    int64_t column = block * kChunk, row = piece * kRowsOfColumns;
    TensorView start = places;
    Walk walk(places, at);
    start.data = static_cast<char*>(places.data) + (walk.offset() + column) * int64_t(size_of(places.dtype));
    reduce_block<C, Op>(start, reduced, row, std::min(kRowsOfColumns, n_rows - row),
                        std::min(kChunk, width - column), partial_row(at, piece) + column);
  };
  int64_t task_size = kRowsOfColumns * std::min(width, kChunk);
  parallel_for(n_outer * pieces * blocks, std::max<int64_t>(1, kPiece / task_size),
               [&](int64_t begin, int64_t end) {
                 for (int64_t task = begin; task < end; ++task) reduce_task(task);
               });
  auto combine = [&](int64_t begin, int64_t end) {
    Writer<P> writer(y, begin);
    P sums[kChunk];
    for (int64_t count; begin < end; begin += count) {
      int64_t column = begin % width;
      count = std::min({end - begin, width - column, kChunk});
      std::fill_n(sums, count, identity<P, Op>());
      for (int64_t piece = 0; piece < pieces; ++piece) {
        const C* partial = partial_row(begin / width, piece) + column;
        for (int64_t j = 0; j < count; ++j) sums[j] = Op{}(sums[j], P(partial[j]));
      }
      writer.write(sums, count);
    }
  };
  parallel_for(n_outer * width, std::max<int64_t>(kChunk, kPiece / pieces), combine);
}

template <class C, class Op>
void reduce_views(const TensorView& x, const TensorView& y) {
  ReductionSplit parts = split_reduction(x, y);
  int64_t length = parts.reduced.numel();
  if (length == 0) {
    check(std::is_same_v<Op, Add>, "reduce: max and min of nothing: x is ", x.shape, ", y ", y.shape);
    return fill(Stream(y.device), y, 0);
  }
  simplify(parts);
  const auto& [places, reduced, results] = parts;
  int last = places.rank() - 1;
  int64_t width = places.shape[last];
  if (places.strides[last] == 1 && width >= kLeastWidth && length > 1)
    return reduce_columns<C, Op>(select(places, last, 0), reduced, width, results);
  TensorView rows = join_views(places, reduced);
  if (length <= kPiece)
    reduce_short_rows<C, Op>(rows, length, results);
  else
    reduce_long_rows<C, Op>(rows, length, results);
}

void reduce_cpu(const Stream&, ReduceOp op, const TensorView& x, const TensorView& y) {
  check_reduction(op, x, y);
  if (y.numel() == 0) return;
  dispatch_compute(x.dtype, [&]<class C>() {
    switch (op) {
      case ReduceOp::sum:
        return reduce_views<C, Add>(x, y);
      case ReduceOp::max:
        return reduce_views<C, Maximum>(x, y);
      case ReduceOp::min:
        return reduce_views<C, Minimum>(x, y);
    }
  });
}

/// Whether b is larger than a for argmax: NaN is largest, and the first of equals stays.
template <class C>
bool is_larger(C b, C a) {
  return b > a || (b != b && a == a);
}

void argmax_cpu(const Stream&, const TensorView& x, const TensorView& y) {
  check_argmax(x, y);
  if (y.numel() == 0) return;
  int64_t length = x.shape.back();
  dispatch_compute(x.dtype, [&]<class C>() {
    parallel_for(y.numel(), std::max<int64_t>(1, kPiece / length), [&](int64_t begin, int64_t end) {
      Reader<C> reader(x, begin * length);
      Writer<int64_t> writer(y, begin);
      for (int64_t row = begin; row < end; ++row) {
        int64_t best_at = 0;
        C best{};
        for_each_chunk(0, length, [&](int64_t first, int64_t count) {
          const C* numbers = reader.read(count);
          if (first == 0) best = numbers[0];
          for (int64_t i = 0; i < count; ++i)
            if (is_larger(numbers[i], best)) best = numbers[i], best_at = first + i;
        });
        writer.write(&best_at, 1);
      }
    });
  });
}

}  // namespace

decltype(reduce) reduce{"reduce", reduce_cpu};
decltype(argmax) argmax{"argmax", argmax_cpu};

}  // namespace reprise::kernels
