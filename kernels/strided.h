// Reading and writing views of any strides and dtype as a row-major sequence of numbers, a chunk at a time. A
// kernel written on contiguous chunks of its compute type works on every view; where the view is contiguous
// and already of that type, the chunk is the memory itself.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "reprise/core/parallel.h"
#include "reprise/core/view.h"
#include "reprise/kernels/convert_row.h"

namespace reprise::kernels {

inline constexpr int64_t kChunk = 1024;         ///< numbers in one chunk: its buffers stay in L1
inline constexpr int64_t kPiece = 16 * kChunk;  ///< numbers in one task; a smaller tensor starts no thread

/// Error naming `op` unless a and b have one shape.
void check_same_shape(const char* op, const TensorView& a, const TensorView& b);
/// Error naming `op` unless a and b have one dtype.
void check_same_dtype(const char* op, const TensorView& a, const TensorView& b);

/// Drops dimensions of size 1 and merges neighbours wherever all views allow it. The views have one shape;
/// the order of the elements stays. What is left has rank 1 at least.
void collapse(std::span<TensorView> views);

/// Permutes the dimensions of views of one shape alike, so that the strides of the last view descend:
/// elementwise loops then write forwards, and read forwards what is laid out like the output.
void order_like_last(std::span<TensorView> views);

/// A position in a collapsed view, moving forwards in row-major order.
class Walk {
 public:
  Walk(const TensorView& view, int64_t position);

  int64_t offset() const { return offset_; }  ///< of the current element, in elements
  int64_t stride() const { return strides_[last_]; }
  int64_t left() const { return sizes_[last_] - index_[last_]; }  ///< elements to the end of this run
  void advance(int64_t count);                                    ///< count <= left()

 private:
  Dims sizes_, strides_;
  Dims index_;
  int last_;
  int64_t offset_ = 0;
};

/// Calls `body(offset, stride, begin, count)` for each piece of a run among the next `count` elements.
template <class Body>
void for_each_run(Walk& walk, int64_t count, Body&& body) {
  for (int64_t done = 0; done < count;) {
    int64_t run = std::min(count - done, walk.left());
    body(walk.offset(), walk.stride(), done, run);
    walk.advance(run);
    done += run;
  }
}

/// Reads a view in row-major order as numbers of type C.
template <class C>
class Reader {
 public:
  Reader(const TensorView& view, int64_t position) : Reader(collapsed(view), position, 0) {}

  /// The next `count` <= kChunk numbers, valid until the next call.
  const C* read(int64_t count) {
    if (view_.dtype == dtype_of<C> && walk_.left() >= count && (walk_.stride() == 1 || count == 1)) {
      const C* here = static_cast<const C*>(view_.data) + walk_.offset();
      walk_.advance(count);
      return here;
    }
    dispatch_all(view_.dtype, [&]<class T>() { gather(static_cast<const T*>(view_.data), count); });
    return buffer_;
  }

 private:
  Reader(const TensorView& view, int64_t position, int) : view_(view), walk_(view, position) {}
  static TensorView collapsed(TensorView view) {
    collapse({&view, 1});
    return view;
  }
  template <class T>
  void gather(const T* data, int64_t count) {
    for_each_run(walk_, count, [&](int64_t offset, int64_t stride, int64_t begin, int64_t run) {
      const T* from = data + offset;
      C* to = buffer_ + begin;
      if (stride == 1)
        convert_row(from, to, run);
      else if (stride == 0)
        std::fill_n(to, run, convert<C>(*from));
      else
        for (int64_t i = 0; i < run; ++i) to[i] = convert<C>(from[i * stride]);
    });
  }

  TensorView view_;
  Walk walk_;
  alignas(64) C buffer_[kChunk];
};

/// Writes a view in row-major order from numbers of type C.
template <class C>
class Writer {
 public:
  Writer(const TensorView& view, int64_t position) : Writer(collapsed(view), position, 0) {}

  /// Where to put the next `count` <= kChunk numbers; `commit` must follow.
  C* next(int64_t count) {
    direct_ = view_.dtype == dtype_of<C> && walk_.left() >= count && (walk_.stride() == 1 || count == 1);
    return direct_ ? static_cast<C*>(view_.data) + walk_.offset() : buffer_;
  }
  void commit(int64_t count) {
    if (direct_) return walk_.advance(count);
    dispatch_all(view_.dtype, [&]<class T>() { scatter(static_cast<T*>(view_.data), buffer_, count); });
  }
  /// Writes `count` numbers that lie elsewhere.
  void write(const C* from, int64_t count) {
    dispatch_all(view_.dtype, [&]<class T>() { scatter(static_cast<T*>(view_.data), from, count); });
  }

 private:
  Writer(const TensorView& view, int64_t position, int) : view_(view), walk_(view, position) {}
  static TensorView collapsed(TensorView view) {
    collapse({&view, 1});
    return view;
  }
  template <class T>
  void scatter(T* data, const C* numbers, int64_t count) {
    for_each_run(walk_, count, [&](int64_t offset, int64_t stride, int64_t begin, int64_t run) {
      T* to = data + offset;
      const C* from = numbers + begin;
      if (stride == 1)
        convert_row(from, to, run);
      else
        for (int64_t i = 0; i < run; ++i) to[i * stride] = convert<T>(from[i]);
    });
  }

  TensorView view_;
  Walk walk_;
  bool direct_ = false;
  alignas(64) C buffer_[kChunk];
};

/// Calls `body(begin, count)` for each chunk of [begin, end).
template <class Body>
void for_each_chunk(int64_t begin, int64_t end, Body&& body) {
  for (; begin < end; begin += kChunk) body(begin, std::min(kChunk, end - begin));
}

}  // namespace reprise::kernels
