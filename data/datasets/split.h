// Which part of a data set.
#pragma once

namespace reprise::data {

/// A part of a data set. In sets of two files `validation` and `test` are the same one.
enum class Split { train, validation, test };

}  // namespace reprise::data
