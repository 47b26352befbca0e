#include "reprise/distributed/reduce_op.h"

#include "reprise/core/error.h"

namespace reprise::distributed {

std::string_view name_of(ReduceOp op) {
  constexpr std::string_view names[] = {"sum", "mean", "min", "max"};
  return names[size_t(op)];
}

void check_reducible(std::string_view operation, ReduceOp op, DType dtype) {
  check(op <= ReduceOp::max, operation, ": there is no reduction ", int(op));
  check(dtype != DType::boolean, operation, ": bool has no ", name_of(op), "; use u8");
  check(op != ReduceOp::mean || is_floating(dtype), operation, ": the mean of ", dtype,
        " is no integer; use sum, or a floating dtype");
}

}  // namespace reprise::distributed
