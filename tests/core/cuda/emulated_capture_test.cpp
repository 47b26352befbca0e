// What may be called while a stream is captured: CUDA loads a kernel's code at its first launch, which only a relaxed capture allows.
#include <thread>

#include "reprise/autograd/ops.h"
#include "reprise/core/cuda/emulated_loading.h"
#include "reprise/core/cuda/graph.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/tests/core/cuda/cuda_test.h"

namespace reprise {
namespace {

using cuda::CaptureMode;
using cuda::emulated::forget_kernels;
using cuda::emulated::loaded_kernels;

class EmulatedCapture : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    stream = current_stream(device);
    x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}, device);
    x.mul_(0.5);
    synchronize(device);
    forget_kernels();
  }

  /// What `body` throws while a capture of that mode is under way, and then what its end does.
  template <class Body>
  std::pair<std::string, std::string> messages_in_a_capture(CaptureMode mode, const Body& body) {
    cuda::emulated::begin_capture(stream.handle(), mode);
    const std::string inside = message_of(body);
    const std::string end = message_of([&] { cuda::destroy_graph(cuda::end_capture(stream.handle())); });
    EXPECT_FALSE(cuda::is_capturing(stream.handle()));
    return {inside, end};
  }

  Stream stream{Device::cpu()};
  Tensor x;
};

TEST_F(EmulatedCapture, FirstLaunchesInAGraphGiveTheSameBits) {
  Tensor w = Tensor::from<float>({.5f, -1, 2, .25f, 1, -2, .125f, 3, -.5f, 1, 1, 2}, {4, 3}, device);
  w.set_requires_grad(true);
  auto pass = [&] {
    w.set_grad({});
    Tensor y = softmax(layer_norm(gelu(linear(x, w)), Tensor(), Tensor()));
    square(y).sum().backward();
    return y.detach();
  };
  const std::vector<float> y = pass().to_vector<float>(), dw = w.grad().to_vector<float>();
  forget_kernels();
  Tensor captured;
  cuda::Graph graph(stream, [&] { captured = pass(); });
  EXPECT_GT(loaded_kernels(0), 5u) << "each kernel of the pass was launched first in the capture";
  graph.launch();
  EXPECT_EQ(captured.to_vector<float>(), y);
  EXPECT_EQ(w.grad().to_vector<float>(), dw);
}

TEST_F(EmulatedCapture, LoadsAKernelOncePerDevice) {
  x.mul_(2.0);
  const size_t once = loaded_kernels(0);
  EXPECT_GE(once, 1u);
  x.mul_(2.0);
  EXPECT_EQ(loaded_kernels(0), once);
  EXPECT_EQ(loaded_kernels(1), 0u);
  EXPECT_EQ(messages_in_a_capture(CaptureMode::global, [&] { x.mul_(2.0); }),
            std::pair(std::string(), std::string()));
}

TEST_F(EmulatedCapture, AFirstLaunchBreaksACaptureThatIsNotRelaxed) {
  for (const auto& [mode, who] :
       {std::pair(CaptureMode::global, "mode global forbids all threads"),
        std::pair(CaptureMode::this_thread, "mode thread-local forbids the thread that began it")}) {
    forget_kernels();
    const auto [inside, end] = messages_in_a_capture(mode, [&] { x.mul_(2.0); });
    EXPECT_NE(
        inside.find(std::string("the first launch of this kernel loads its code, which a capture of ") + who),
        std::string::npos)
        << inside;
    EXPECT_NE(end.find("made the capture invalid"), std::string::npos) << end;
  }
  EXPECT_EQ(messages_in_a_capture(CaptureMode::relaxed, [&] { x.mul_(2.0); }),
            std::pair(std::string(), std::string()));
}

TEST_F(EmulatedCapture, TakingMemoryBreaksACaptureThatIsNotRelaxed) {
  auto take = [&] { cuda::release(0, cuda::allocate(0, 256)); };
  const auto [inside, end] = messages_in_a_capture(CaptureMode::global, take);
  EXPECT_NE(inside.find("allocate: it takes memory"), std::string::npos) << inside;
  EXPECT_NE(end.find("end_capture: allocate made the capture invalid"), std::string::npos) << end;
  EXPECT_EQ(messages_in_a_capture(CaptureMode::relaxed, take), std::pair(std::string(), std::string()));
}

TEST_F(EmulatedCapture, AForbiddenCallBreaksEachCaptureThatForbidsIt) {
  cuda::OwnedStream side(device);
  cuda::emulated::begin_capture(side.get().handle(), CaptureMode::global);
  const auto [inside, end] = messages_in_a_capture(CaptureMode::global, [&] { x.mul_(2.0); });
  EXPECT_NE(inside, "");
  EXPECT_NE(end.find("made the capture invalid"), std::string::npos) << end;
  const std::string other = message_of([&] { cuda::destroy_graph(cuda::end_capture(side.get().handle())); });
  EXPECT_NE(other.find("made the capture invalid"), std::string::npos) << other;
}

// A launch of another thread, on a stream that is not captured.
TEST_F(EmulatedCapture, ForbidsOtherThreadsIfItIsGlobal) {
  cuda::OwnedStream side(device);
  auto elsewhere = [&] {
    std::string message;
    std::thread([&] {
      cuda::StreamScope scope(side.get());
      message = message_of([&] { x.mul_(2.0); });
    }).join();
    if (!message.empty()) fail(message);
  };
  EXPECT_NE(messages_in_a_capture(CaptureMode::global, elsewhere).first.find("forbids all threads"),
            std::string::npos);
  EXPECT_EQ(messages_in_a_capture(CaptureMode::this_thread, elsewhere),
            std::pair(std::string(), std::string()));
}

TEST_F(EmulatedCapture, IsEndedByTheThreadThatBeganItUnlessItIsRelaxed) {
  auto end_elsewhere = [&] {
    std::string message;
    std::thread([&] {
      message = message_of([&] { cuda::destroy_graph(cuda::end_capture(stream.handle())); });
    }).join();
    return message;
  };
  cuda::emulated::begin_capture(stream.handle(), CaptureMode::this_thread);
  EXPECT_NE(end_elsewhere().find("another thread began the capture"), std::string::npos);
  cuda::destroy_graph(cuda::end_capture(stream.handle()));
  cuda::emulated::begin_capture(stream.handle(), CaptureMode::relaxed);
  EXPECT_EQ(end_elsewhere(), "");
}

}  // namespace
}  // namespace reprise
