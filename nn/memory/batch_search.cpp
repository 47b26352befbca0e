#include "reprise/nn/memory/batch_search.h"

#include <algorithm>

#include "reprise/core/memory.h"

namespace reprise::nn {
namespace {

class Search {
 public:
  Search(Module& model, Device device, const std::function<void(int64_t rows)>& step,
         const BatchSearchOptions& options)
      : model_(model), memory_(allocator(device)), step_(step), options_(options) {}

  // Memory grows almost evenly with the rows, so two small batches tell where to look; from there on in growing strides, then by
  // halves.
  FoundBatch run() {
    const int64_t least = options_.least;
    if (!fits(least)) return found_;
    int64_t good = least, bad = std::max(options_.largest, least) + 1, stride = 1;
    const size_t first = found_.peak;
    if (least + 1 < bad && fits(least + 1)) good = least + 1;
    int64_t next = good > least ? guess(first) : least + 1;
    while (bad - good > 1) {
      next = std::clamp(next, good + 1, bad - 1);
      if (fits(next)) {
        good = next;
        next = bad <= options_.largest ? std::min(good + stride, good + (bad - good) / 2) : good + stride;
      } else {
        bad = next;
        next = std::max(bad - stride, good + (bad - good) / 2);
      }
      stride *= 2;
    }
    return found_;
  }

 private:
  bool fits(int64_t rows) {
    memory_.empty_cache();
    memory_.reset_peaks();
    try {
      step_(rows);
      if (rows > found_.rows) found_.rows = rows, found_.peak = memory_.stats().peak_held;
      return true;
    } catch (const OutOfMemory& refusal) {
      if (found_.refused == 0 || rows < found_.refused)
        found_.refused = rows, found_.refusal = refusal.what();
    }
    model_.zero_grad();  // those that backward had got to
    return false;
  }

  int64_t guess(size_t first) const {
    const double more = double(found_.peak) - double(first);
    return more > 0 ? options_.least + int64_t((double(memory_.limit()) - double(first)) / more)
                    : options_.largest;
  }

  Module& model_;
  Allocator& memory_;
  const std::function<void(int64_t rows)>& step_;
  const BatchSearchOptions options_;
  FoundBatch found_;
};

}  // namespace

FoundBatch try_max_batch(Module& model, const std::function<void(int64_t rows)>& step,
                         const BatchSearchOptions& options) {
  constexpr auto op = "try_max_batch";
  check(options.least >= 1 && options.largest >= options.least, op, ": from ", options.least, " to ",
        options.largest, " rows: there is nothing to try");
  const TensorList all = model.parameters();
  check(!all.empty(), op, ": the model has no parameters, whose device has the limit");
  check(allocator(all[0].device()).limit() > 0, op, ": set_limit of the allocator of ", all[0].device(),
        " before: without a limit memory is filled until the system ends the program");
  return Search(model, all[0].device(), step, options).run();
}

}  // namespace reprise::nn
