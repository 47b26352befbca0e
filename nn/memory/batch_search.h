// The largest batch that a memory limit has room for, found by trying.
#pragma once

#include <functional>
#include <string>

#include "reprise/nn/module.h"

namespace reprise::nn {

/// Where `try_max_batch` looks.
struct BatchSearchOptions {
  int64_t least = 1;        ///< rows that a step takes
  int64_t largest = 65536;  ///< where the search ends
};

/// What `try_max_batch` finds.
struct FoundBatch {
  int64_t rows = 0;       ///< the largest batch that fits; 0: none does
  size_t peak = 0;        ///< bytes that its step held at most
  int64_t refused = 0;    ///< the smallest batch that was tried and did not fit; 0: none
  std::string refusal{};  ///< what was said to it
};

/// Tries steps of so many rows under the allocator's limit on the device of the model's parameters, which goes on after a refusal: its
/// gradients are dropped then. `step` trains. Where no machine is to be filled, `max_batch` predicts. Error without a limit.
FoundBatch try_max_batch(Module& model, const std::function<void(int64_t rows)>& step,
                         const BatchSearchOptions& options = {});

}  // namespace reprise::nn

namespace reprise {
using nn::BatchSearchOptions;
using nn::FoundBatch;
using nn::try_max_batch;
}  // namespace reprise
