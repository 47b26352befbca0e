// How the emulator runs kernels, and what it counted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reprise::simt {

/// Which of the threads that can run goes next. A correct kernel gives the same results in each.
enum class Order { forward, reverse, random };

struct EmulatorOptions {
  Order order = Order::forward;  ///< REPRISE_EMULATOR_ORDER=forward|reverse|random
  uint64_t seed = 1;             ///< of random order: REPRISE_EMULATOR_SEED
  int workers = 0;  ///< OS threads over which blocks are spread: REPRISE_EMULATOR_WORKERS; 0: num_threads()
  size_t stack_bytes = 0;    ///< of a CUDA thread; 0: 64 KiB, 256 KiB under a sanitizer
  double spin_seconds = 10;  ///< a block whose threads only spin for so long fails
};

/// Read by each launch. Not to be changed while one runs.
EmulatorOptions& emulator_options();

/// Sums over the blocks of a launch.
struct Stats {
  uint64_t switches = 0;               ///< from thread to thread
  uint64_t barriers = 0;               ///< threads that came to one
  uint64_t warp_operations = 0;        ///< threads that took part in one
  uint64_t matrix_row_phases = 0;      ///< ldmatrix reads eight rows of 16 bytes at a time
  uint64_t matrix_bank_conflicts = 0;  ///< rows of a phase whose banks another row of it had used
};

/// The bank conflicts of the launch that ended last.
Stats last_launch_stats();

}  // namespace reprise::simt
