#include "reprise/data/views.h"

#include "reprise/core/error.h"

namespace reprise::data {

void check_views(const Views& views, const char* op) {
  check(!views.empty(), op, ": there are no views");
  const PipelineOptions& first = views.front()->options();
  for (const Pipeline* view : views) {
    const PipelineOptions& o = view->options();
    check(o.height == first.height && o.width == first.width && o.channels == first.channels, op,
          ": views of ", first.height, " x ", first.width, " x ", first.channels, " and of ", o.height, " x ",
          o.width, " x ", o.channels);
    check(o.mean == first.mean && o.deviation == first.deviation, op, ": views are normalised alike");
    check(views.size() == 1 || (!o.erasing && !o.mixing), op, ": views are neither erased nor mixed");
  }
}

Order::Sample sample_of_view(Order::Sample sample, const Views& views, int64_t view) {
  sample.key = sample.key * views.size() + uint64_t(view);
  return sample;
}

}  // namespace reprise::data
