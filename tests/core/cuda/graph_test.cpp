// Graphs: what is captured runs when it is launched, on memory of its own.
#include "reprise/core/cuda/graph.h"

#include <memory>

#include "reprise/core/cuda/event.h"
#include "reprise/core/transfer.h"
#include "reprise/tests/core/cuda/cuda_test.h"

namespace reprise {
namespace {

class CudaGraph : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    stream = current_stream(device);
    source = Tensor::from<int32_t>({1, 2, 3}, {3}, device);
    target = Tensor::zeros({3}, DType::i32, device);
  }
  void copy(const Tensor& from, const Tensor& to) { copy_bytes(from, to); }

  Stream stream{Device::cpu()};
  Tensor source, target;
};

TEST_F(CudaGraph, RunsOnlyWhenItIsLaunched) {
  cuda::Graph graph(stream, [&] { copy(source, target); });
  EXPECT_EQ(target.to_vector<int32_t>(), (std::vector<int32_t>{0, 0, 0}));
  graph.launch();
  EXPECT_EQ(target.to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3}));
  copy_bytes(Tensor::from<int32_t>({4, 5, 6}, {3}).view(), source);
  graph.launch();
  EXPECT_EQ(target.to_vector<int32_t>(), (std::vector<int32_t>{4, 5, 6}));
}

int made_before_capture = 0;
const cuda::BeforeCapture counts{[](Device device) {
  ++made_before_capture;
  synchronize(device);  // not allowed during a capture
}};

TEST_F(CudaGraph, MakesBeforeACaptureWhatMustNotBeMadeDuringOne) {
  const int before = made_before_capture;
  cuda::Graph graph(stream, [&] {
    EXPECT_EQ(made_before_capture, before + 1);
    copy(source, target);
  });
  graph.launch();
  EXPECT_EQ(target.to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3}));
}

TEST_F(CudaGraph, CapturesAnyStream) {
  cuda::OwnedStream side(device);
  synchronize(device);
  cuda::Graph graph(side.get(), [&] {
    EXPECT_EQ(current_stream(device), side.get());
    copy(source, target);
  });
  EXPECT_EQ(target.to_vector<int32_t>(), (std::vector<int32_t>{0, 0, 0}));
  graph.launch();
  synchronize(side.get());
  EXPECT_EQ(target.to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3}));
}

TEST_F(CudaGraph, KeepsTheMemoryThatItWasCapturedWith) {
  Tensor result;
  cuda::Graph graph(stream, [&] {
    Tensor middle = Tensor::empty({3}, DType::i32, device);
    copy(source, middle);
    result = Tensor::empty({3}, DType::i32, device);
    copy(middle, result);
  });
  // `middle` is free, but not for others: they would be overwritten by the launch.
  std::vector<Tensor> others;
  for (int i = 0; i < 8; ++i) others.push_back(Tensor::zeros({3}, DType::i32, device));
  graph.launch();
  EXPECT_EQ(result.to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3}));
  for (const Tensor& other : others) EXPECT_EQ(other.to_vector<int32_t>(), std::vector<int32_t>(3, 0));
}

TEST_F(CudaGraph, UsesItsOwnMemoryAgain) {
  void *first = nullptr, *second = nullptr;
  cuda::Graph graph(stream, [&] {
    first = Tensor::empty({5000}, DType::f32, device).view().data;
    second = Tensor::empty({5000}, DType::f32, device).view().data;
  });
  EXPECT_EQ(first, second);
}

TEST_F(CudaGraph, GivesItsMemoryBackWhenItGoes) {
  memory().empty_cache();
  size_t reserved = memory().stats().reserved;
  Tensor result;
  {
    cuda::Graph graph(stream, [&] {
      Tensor::zeros({1000}, DType::f32, device);
      result = Tensor::zeros({2000}, DType::f32, device);
    });
    EXPECT_GE(memory().stats().reserved, reserved + 12000);
    memory().empty_cache();  // takes nothing from a graph
    EXPECT_GE(memory().stats().reserved, reserved + 12000);
    graph.launch();
  }
  EXPECT_EQ(result.to_vector<float>(), std::vector<float>(2000, 0.0f));
  result = {};
  EXPECT_EQ(memory().stats().reserved, reserved);
}

TEST_F(CudaGraph, KeepsWhatWasReleasedInsideAsLongAsItReadsIt) {
  for (bool of_other_stream : {false, true}) {
    SCOPED_TRACE(of_other_stream);
    memory().empty_cache();
    const size_t reserved = memory().stats().reserved;
    cuda::OwnedStream side(device);
    {
      Tensor input;
      {
        cuda::StreamScope scope(of_other_stream ? side.get() : stream);
        input = Tensor::from<int32_t>({4, 5, 6}, {3}, device);
      }
      synchronize(device);
      cuda::Graph graph(stream, [&] {
        input.record_stream(stream);
        copy(input, target);
        input = {};
      });
      // Whatever comes next on either stream may not have its memory: each launch reads it.
      std::vector<Tensor> others;
      for (const Stream& next : {stream, side.get()}) {
        cuda::StreamScope scope(next);
        for (int i = 0; i < 8; ++i) others.push_back(Tensor::zeros({3}, DType::i32, device));
      }
      synchronize(device);
      for (int launch = 0; launch < 2; ++launch) {
        target.zero_();
        graph.launch();
        EXPECT_EQ(target.to_vector<int32_t>(), (std::vector<int32_t>{4, 5, 6}));
      }
    }
    synchronize(device);
    memory().empty_cache();
    EXPECT_EQ(memory().stats().reserved, reserved) << "the graph is gone";
  }
}

TEST_F(CudaGraph, KeepsWhatAnotherGraphMadeAndItReads) {
  memory().empty_cache();
  const size_t reserved = memory().stats().reserved;
  {
    Tensor made;
    auto maker = std::make_unique<cuda::Graph>(stream, [&] {
      made = Tensor::zeros({3}, DType::i32, device);
      copy(source, made);
    });
    maker->launch();
    cuda::Graph reader(stream, [&] {
      copy(made, target);
      made = {};
    });
    maker.reset();
    std::vector<Tensor> others;
    for (int i = 0; i < 8; ++i) others.push_back(Tensor::zeros({3}, DType::i32, device));
    target.zero_();
    reader.launch();
    EXPECT_EQ(target.to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3}));
  }
  synchronize(device);
  memory().empty_cache();
  EXPECT_EQ(memory().stats().reserved, reserved) << "both graphs are gone";
}

TEST_F(CudaGraph, IsUpdatedInPlaceIfItsShapeIsTheSame) {
  cuda::Graph graph(stream, [&] { copy(source, target); });
  Tensor other = Tensor::from<int32_t>({7, 8, 9}, {3}, device),
         second = Tensor::zeros({3}, DType::i32, device);
  EXPECT_TRUE(graph.update([&] { copy(other, target); }));
  graph.launch();
  EXPECT_EQ(target.to_vector<int32_t>(), (std::vector<int32_t>{7, 8, 9}));
  EXPECT_FALSE(graph.update([&] {
    copy(source, target);
    copy(other, second);
  }));
  graph.launch();
  EXPECT_EQ(target.to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(second.to_vector<int32_t>(), (std::vector<int32_t>{7, 8, 9}));
}

TEST_F(CudaGraph, CapturesStreamsThatAreForkedAndJoined) {
  cuda::OwnedStream side(device);
  Tensor second = Tensor::zeros({3}, DType::i32, device);
  cuda::Event forked(device), joined(device);
  cuda::Graph graph(stream, [&] {
    copy(source, target);
    forked.record(stream);
    forked.make_wait(side.get());
    cuda::copy_async(second.view().data, target.view().data, 12, side.get().handle());
    joined.record(side.get());
    joined.make_wait(stream);
  });
  graph.launch();
  EXPECT_EQ(second.to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3}));
}

TEST_F(CudaGraph, RefusesAStreamThatIsNotJoined) {
  cuda::OwnedStream side(device);
  cuda::Event forked(device);
  auto body = [&] {
    forked.record(stream);
    forked.make_wait(side.get());
    cuda::set_bytes_async(target.view().data, 1, 12, side.get().handle());
  };
  EXPECT_NE(message_of([&] { cuda::Graph graph(stream, body); }), "");
  EXPECT_EQ(target.to_vector<int32_t>(), (std::vector<int32_t>{0, 0, 0}));  // the stream is usable again
}

TEST_F(CudaGraph, RefusesWaitingInsideAndIsUsableAfterwards) {
  size_t reserved = memory().stats().reserved;
  EXPECT_NE(message_of([&] {
              cuda::Graph graph(stream, [&] {
                Tensor scratch = Tensor::zeros({100000}, DType::f32, device);
                target.to_vector<int32_t>();
              });
            }),
            "");
  EXPECT_EQ(memory().stats().reserved, reserved);
  cuda::Graph graph(stream, [&] { copy(source, target); });
  graph.launch();
  EXPECT_EQ(target.to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3}));
}

TEST_F(CudaGraph, RefusesHostMemoryThatWillBeGone) {
  std::string text = message_of([&] {
    cuda::Graph graph(stream, [&] { target = Tensor::from<int32_t>({1, 2, 3}, {3}, device); });
  });
  EXPECT_NE(text.find("while a graph is captured"), std::string::npos) << text;
}

TEST_F(CudaGraph, PassesOnWhatItsBodyThrows) {
  EXPECT_EQ(message_of([&] { cuda::Graph graph(stream, [] { fail("body: broke"); }); }), "body: broke");
  cuda::Graph graph(stream, [&] { copy(source, target); });
  cuda::Graph moved = std::move(graph);
  moved.launch();
  EXPECT_EQ(target.to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3}));
}

}  // namespace
}  // namespace reprise
