// The clock of waits: what a stream waits for is counted, what had happened before is not.
#include "reprise/core/cuda/wait_clock.h"

#include <chrono>
#include <thread>

#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/core/cuda/stream.h"
#include "reprise/tests/core/cuda/deferred_streams.h"

namespace reprise {
namespace {

class WaitClock : public DeferredStreamsTest {};

TEST_F(WaitClock, CountsTheTimeThatAStreamStoodStill) {
  constexpr std::chrono::milliseconds nap(200);  // longer than a busy machine holds up a thread
  constexpr double nap_seconds = 0.2;
  cuda::OwnedStream working(device), waiting(device);
  cuda::WaitClock clock;
  cuda::Event done(device);
  cuda::emulated::enqueue(working.get().handle(), [=] { std::this_thread::sleep_for(nap); });
  done.record(working.get());
  clock.wait(done, waiting.get());
  synchronize(waiting.get());
  double seconds = clock.seconds();
  EXPECT_GE(seconds, nap_seconds);
  clock.wait(done, waiting.get());
  synchronize(waiting.get());
  EXPECT_LT(clock.seconds() - seconds, nap_seconds);
}

}  // namespace
}  // namespace reprise
