// Which part of a data set.
#pragma once

namespace reprise::data {

/// Of sets in two files, all but train is the other one.
enum class Split { train, validation, test };

}  // namespace reprise::data
