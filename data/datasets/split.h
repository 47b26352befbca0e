// Which part of a data set.
#pragma once

namespace reprise::data {

enum class Split { train, validation };  ///< validation: what a set itself may call test

}  // namespace reprise::data
