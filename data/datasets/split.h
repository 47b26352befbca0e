// Which part of a data set.
#pragma once

namespace reprise::data {

enum class Split { train, validation, test };  ///< of sets in two files, all but train is the other one

}  // namespace reprise::data
