// What a training program was doing when memory ran out.
#pragma once

#include <cstdint>
#include <new>
#include <string>

#include "reprise/core/memory.h"

namespace reprise::train {

/// What takes memory of its own.
enum class Phase : uint8_t {
  step,        ///< forward, backward, update
  evaluation,  ///< `validation_loss`
  sampling,    ///< `sample`
  saving,      ///< a checkpoint
};

/// Memory ran out in a phase. Of sampling and saving the message says that --recompute and --batch change nothing there.
class OutOfMemoryIn : public OutOfMemory {
 public:
  /// `message`: of the error that it takes the place of.
  OutOfMemoryIn(Phase phase, const std::string& message)
      : OutOfMemory(worded(phase, message)), phase_(phase) {}
  Phase phase() const { return phase_; }  ///< in which memory ran out

 private:
  static std::string worded(Phase phase, const std::string& message) {
    switch (phase) {
      case Phase::step:
        return "training step: " + message;
      case Phase::evaluation:
        return "evaluation: " + message;
      case Phase::sampling:
        return "sampling: " + message + "; sampling takes as much with any --recompute and --batch";
      case Phase::saving:
        break;
    }
    return "saving: " + message + "; saving takes as much with any --recompute and --batch";
  }

  Phase phase_;
};

/// What `work` returns. A lack of memory in it, for tensors or for the program, is an OutOfMemoryIn.
template <class Work>
auto in_phase(Phase phase, Work&& work) {
  try {
    return work();
  } catch (const OutOfMemoryIn&) { throw; } catch (const OutOfMemory& error) {
    throw OutOfMemoryIn(phase, error.what());
  } catch (const std::bad_alloc&) { throw OutOfMemoryIn(phase, "out of memory that no tensor holds"); }
}

}  // namespace reprise::train
