// A kernel that looks values up and reports those that are outside, for tests.
#pragma once

#include <cstdint>

#include "reprise/core/stream.h"
#include "reprise/core/view.h"

namespace reprise {

/// y[i] = table[index[i]]; an index outside of the table is reported, with its place as the row.
void look_up(const Stream& stream, const TensorView& table, const TensorView& index, const TensorView& y);

}  // namespace reprise
