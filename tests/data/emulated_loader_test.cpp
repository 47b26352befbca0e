// A loader whose batches cross to a GPU: what waits for what, on streams that run as late as they may.
// labels: concurrency
#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/core/cuda/stream.h"
#include "reprise/data/loader.h"
#include "reprise/tests/core/cuda/deferred_streams.h"
#include "reprise/tests/data/counted_images.h"

namespace reprise::data {
namespace {

using cuda::emulated::pending;
using testing::CountedImages;

class EmulatedLoader : public DeferredStreamsTest {
 protected:
  LoaderOptions options(int64_t workers) const {
    return {.batch = 4, .seed = 5, .workers = workers, .prefetch = 1};
  }

  const CountedImages images{23};
  const Pipeline pipeline{{.height = CountedImages::height,
                           .width = CountedImages::width,
                           .mean = {0.5, 0.4, 0.3},
                           .deviation = {0.2, 0.3, 0.4}}};
};

// A slot that threads fill again before its copy has run, rows on the device that the next copy replaces before they are
// read, a kernel that comes before its copy: each would be other values.
TEST_F(EmulatedLoader, ValuesAreThoseOfTheCpuThoughBuffersAreUsedAgain) {
  for (int64_t workers : {0, 2}) {
    ImageLoader here(images, pipeline, options(workers)), there(images, pipeline, options(workers), device);
    std::vector<Tensor> batches;
    const std::vector<int64_t> steps = {0, 1, 2, 3, 4, 4, 9, 2, 3};  // some twice, some out of order
    for (int64_t step : steps) batches.push_back(there.batch(step).images);
    for (size_t i = 0; i < steps.size(); ++i)
      EXPECT_EQ(batches[i].to_vector<float>(), here.batch(steps[i]).images.to_vector<float>())
          << workers << " workers, batch " << i;
  }
}

TEST_F(EmulatedLoader, CopiesOnAStreamOfItsOwnForWhichComputingWaits) {
  void* copies = cuda::OwnedStream(device).get().handle();  // given back: the next owner's
  const Stream compute = current_stream(device);
  ImageLoader loader(images, pipeline, options(1), device);
  synchronize(device);

  loader.batch(0);
  EXPECT_GT(pending(copies), 0u) << "the host waited for the copy, or it is on another stream";
  EXPECT_GT(pending(compute.handle()), 0u);
  synchronize(compute);
  EXPECT_EQ(pending(copies), 0u) << "computing did not wait for the copy";

  // Later ones: the copy before ends first, and of computing no more runs than the kernel that read the rows before those.
  loader.batch(1);
  loader.batch(2);
  const size_t one_copy = pending(copies);
  bool has_computed = false;
  cuda::emulated::enqueue(compute.handle(), [&] { has_computed = true; });  // the rest of the step
  loader.batch(3);
  EXPECT_EQ(pending(copies), one_copy) << "the host did not wait for the copy before";
  synchronize(Stream(device, copies));
  EXPECT_FALSE(has_computed) << "a copy waited for more than the kernel that read the rows";
  synchronize(compute);
  EXPECT_TRUE(has_computed);
}

TEST_F(EmulatedLoader, EndsWithItsCopies) {
  void* copies = cuda::OwnedStream(device).get().handle();
  Tensor batch;
  {
    ImageLoader loader(images, pipeline, options(1), device);
    batch = loader.batch(0).images;
    EXPECT_GT(pending(copies), 0u);
  }
  EXPECT_EQ(pending(copies), 0u);
  ImageLoader here(images, pipeline, options(0));
  EXPECT_EQ(batch.to_vector<float>(), here.batch(0).images.to_vector<float>());
}

TEST_F(EmulatedLoader, RefusesToCrossWhileAGraphIsCaptured) {
  ImageLoader loader(images, pipeline, options(1), device);
  const Stream compute = current_stream(device);
  synchronize(device);
  cuda::begin_capture(compute.handle());
  const std::string message = message_of([&] { loader.batch(0); });
  cuda::destroy_graph(cuda::end_capture(compute.handle()));
  EXPECT_NE(message.find("image_loader: a batch crosses to cuda"), std::string::npos) << message;
}

}  // namespace
}  // namespace reprise::data
