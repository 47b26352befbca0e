// Steps of which nothing is computed take what real ones take, allocation by allocation; and take no memory.
// not in tsan: NoCompute.TheReportOfAUsersModelIsTheRealOne:NoCompute.StepsTakeWhatRealOnesTake
// slow in asan
// slow in tsan
#include "reprise/core/no_compute.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/anomaly.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/recompute/offload/offload_saved.h"
#include "reprise/nn/memory/memory_report.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/models/jepa.h"
#include "reprise/nn/models/llama.h"
#include "reprise/nn/models/resnet.h"
#include "reprise/nn/models/unet.h"
#include "reprise/nn/models/vit.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/errors.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::random_tokens;

Allocator& memory() { return allocator(Device::cpu()); }

// What a step asks the allocator for and gives back, in its order, and the peak of it.
struct Traffic {
  std::vector<std::pair<int64_t, MemoryCategory>> events;
  size_t peak = 0;  // above what was held before the model was made
};

struct Subject {
  std::string name;
  /// Runs one step of a new model after another; the traffic of the second.
  std::function<Traffic()> train;
};

// `make` gives the model, `loss` the loss of it.
template <class Model, class Options>
Subject subject(const std::string& name, const Options& options, std::function<Tensor(Model&)> loss,
                DType dtype = DType::f32, bool autocast = false) {
  return {name, [=] {
            memory().empty_cache();
            const size_t before = memory().stats().held;
            manual_seed(3);
            Model model(options);
            if (dtype != DType::f32) to_precision(model, dtype);
            optim::AdamW optimizer(optim::decay_matrices(model, 1e-3, 0.1));
            Traffic traffic;
            for (int step = 0; step < 2; ++step) {
              memory().reset_peaks();
              memory().start_recording();
              {
                std::optional<amp::Autocast> scope;
                if (autocast) scope.emplace(Device::cpu(), DType::bf16);
                loss(model).backward();
              }
              optimizer.step(optim::clip_scale(optim::grad_norm(model.parameters()), 1.0));
              optimizer.zero_grad();
              traffic.events.clear();
              for (const MemoryEvent& event : memory().stop_recording())
                traffic.events.emplace_back(event.bytes, event.category);
              traffic.peak = memory().stats().peak_held - before;
            }
            return traffic;
          }};
}

Tensor gpt_loss(Gpt& model) {
  const Tensor ids = random_tokens({4, 33}, 211, 5);
  return cross_entropy(model(ids.slice(1, 0, 32).contiguous()), ids.slice(1, 1, 33).contiguous());
}

std::vector<Subject> subjects() {
  const GptOptions gpt{
      .vocab_size = 211, .context = 32, .layers = 3, .heads = 4, .width = 64, .dropout = 0.1};
  std::vector<Subject> all;
  for (const char* strategy : {"none", "selective", "every:2", "full", "offload"}) {
    GptOptions options = gpt;
    options.recompute = parse_strategy(strategy);
    all.push_back(subject<Gpt>(std::string("gpt, ") + strategy, options, std::function(gpt_loss)));
    all.push_back(subject<Gpt>(std::string("gpt under autocast, ") + strategy, options,
                               std::function(gpt_loss), DType::f32, true));
  }
  all.push_back(subject<Gpt>("gpt in pure bf16", gpt, std::function(gpt_loss), DType::bf16, true));
  all.push_back(subject<Gpt>("gpt, a fifth of the loss", gpt,
                             std::function([](Gpt& model) { return gpt_loss(model) * 0.2; })));
  GptOptions like_llama = gpt;
  like_llama.kv_heads = 2, like_llama.gated = like_llama.rotary = true,
  like_llama.tied = like_llama.bias = false;
  like_llama.norm = NormKind::rms, like_llama.activation = Activation::silu;
  all.push_back(subject<Gpt>("gpt like a llama", like_llama, std::function(gpt_loss)));
  LlamaOptions llama{.vocab_size = 211, .context = 32, .layers = 2, .heads = 4, .kv_heads = 2, .width = 64};
  auto llama_loss = std::function([](Llama& model) {
    const Tensor ids = random_tokens({4, 32}, 211, 5);
    return cross_entropy(model(ids), ids);
  });
  all.push_back(subject<Llama>("llama", llama, llama_loss));
  llama.head_dim = 24, llama.qk_norm = true, llama.window = 9;
  all.push_back(subject<Llama>("llama with norms of queries and a window", llama, llama_loss));
  all.push_back(subject<Vit>(
      "vit", VitOptions{.image = 32, .patch = 8, .classes = 10, .width = 48, .layers = 3, .heads = 3},
      std::function([](Vit& model) {
        return cross_entropy(model(randn({8, 3, 32, 32})), random_tokens({8}, 10, 1));
      })));
  all.push_back(
      subject<ResNet>("resnet", ResNetOptions{.classes = 10, .width = 8}, std::function([](ResNet& model) {
                        return cross_entropy(model(randn({4, 3, 32, 32})), random_tokens({4}, 10, 1));
                      })));
  all.push_back(
      subject<UNet>("unet", UNetOptions{.classes = 2, .features = 8}, std::function([](UNet& model) {
                      const Tensor y = model(randn({2, 3, 32, 32}));
                      return square(y).mean();
                    })));
  all.push_back(subject<Jepa>("jepa",
                              JepaOptions{.image = 32,
                                          .patch = 8,
                                          .width = 48,
                                          .layers = 2,
                                          .heads = 3,
                                          .predictor_width = 24,
                                          .predictor_layers = 2,
                                          .predictor_heads = 3},
                              std::function([](Jepa& model) {
                                const Tensor images = randn({4, 3, 32, 32}),
                                             context = random_tokens({4, 7}, 16, 2),
                                             targets = random_tokens({4, 2, 4}, 16, 3);
                                return model.loss(images, model.target_features(images), context, targets);
                              })));
  return all;
}

TEST(NoCompute, StepsTakeWhatRealOnesTake) {
  for (const Subject& s : subjects()) {
    SCOPED_TRACE(s.name);
    const Traffic real = s.train();
    const Traffic shapes = [&] {
      const NoCompute no_compute;
      return s.train();
    }();
    EXPECT_GT(real.events.size(), 100u);
    EXPECT_EQ(shapes.events, real.events);
    EXPECT_EQ(shapes.peak, real.peak);
  }
}

// Bytes of this process that are in memory.
size_t resident_bytes() {
  size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * size_t(sysconf(_SC_PAGESIZE));
}

TEST(NoCompute, AModelOfAnySizeTakesNoMemory) {
  for (const auto kind : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit most{};
    ASSERT_EQ(getrlimit(kind, &most), 0);
    if (most.rlim_cur != RLIM_INFINITY) GTEST_SKIP() << "this process may not have as many addresses";
  }
  const size_t before = resident_bytes();
  {
    const NoCompute no_compute;
    Gpt model({.layers = 48, .heads = 25, .width = 1600});
    int64_t parameters = 0;
    for (const Tensor& x : model.parameters()) parameters += x.numel();
    EXPECT_EQ(parameters, 1557611200);  // of GPT-2's largest, as published
    optim::AdamW optimizer(optim::decay_matrices(model, 1e-3, 0.1));
    const Tensor ids = random_tokens({8, 1024}, 50257, 1);
    cross_entropy(model(ids), ids).backward();
    optimizer.step();
    EXPECT_GT(memory().stats().peak_held, size_t(36) << 30);
    EXPECT_EQ(memory().stats().by_category[size_t(MemoryCategory::optimizer)], size_t(parameters) * 8);
    EXPECT_LT(resident_bytes(), before + (size_t(1) << 30));
  }
  memory().empty_cache();
}

TEST(NoCompute, TheLimitRefusesWhatItWouldRefuse) {
  const Subject s =
      subject<Gpt>("gpt", GptOptions{.vocab_size = 211, .context = 32, .layers = 3, .heads = 4, .width = 64},
                   std::function(gpt_loss));
  const size_t peak = s.train().peak;
  const NoCompute no_compute;
  memory().empty_cache();
  const size_t held = memory().stats().held;
  memory().set_limit(held + peak);
  EXPECT_NO_THROW(s.train());
  memory().set_limit(held + peak - 64);
  EXPECT_THROW(s.train(), OutOfMemory);
  memory().set_limit(0);
}

TEST(NoCompute, WhatIsSmallIsComputedFromZeros) {
  constexpr int64_t n = 1 << 20;
  const Tensor before = Tensor::from<float>(std::vector<float>(n, 3), {n});
  Tensor small, large;
  {
    const NoCompute no_compute;
    small = Tensor::from<float>({1, 2, 3}, {3}) * 2.0;
    EXPECT_EQ(small.to_vector<float>(), (std::vector<float>{2, 4, 6}));
    large = before * 2.0;
    EXPECT_EQ(large.to_vector<float>()[7], 0);
    EXPECT_EQ(Tensor::zeros({3}).sum().item(), 0);
    EXPECT_EQ(before.to_vector<float>()[7], 3);
    std::thread([&] {
      EXPECT_EQ((before * 2.0).to_vector<float>()[7], 6) << "another thread computes";
    }).join();
    { const NoCompute again; }
    EXPECT_TRUE(NoCompute::is_on());
    EXPECT_EQ((before * 2.0).to_vector<float>()[7], 0);
  }
  EXPECT_FALSE(NoCompute::is_on());
  EXPECT_EQ(before.sum().item(), 3.0 * n);
  EXPECT_EQ(small.to_vector<float>()[2], 6);
  EXPECT_EQ((large + before).to_vector<float>()[9], 3)
      << "what was made within has no values, and can be read";
}

// Memory that had no pages is never handed out as memory that has, nor the other way round.
TEST(NoCompute, BlocksDoNotMix) {
  memory().empty_cache();
  const void* real = nullptr;
  { real = Tensor::empty({5000}).view().data; }
  const void* without = nullptr;
  {
    const NoCompute no_compute;
    const Tensor x = Tensor::empty({5000});
    without = x.view().data;
    EXPECT_NE(without, real);
  }
  EXPECT_EQ(Tensor::empty({5000}).view().data, real);
  memory().empty_cache();
  unsigned char in_core = 0;
  EXPECT_EQ(mincore(const_cast<void*>(without), 1, &in_core), -1) << "it is given back";
}

TEST(NoCompute, BlocksBeginAtZeroAgain) {
  const NoCompute no_compute;
  for (int64_t n : {3, 5000}) {
    const void* first = nullptr;
    {
      const Tensor x = Tensor::empty({n});
      x.data<float>()[2] = 7;
      first = x.view().data;
    }
    const Tensor again = Tensor::empty({n});
    EXPECT_EQ(again.view().data, first);
    EXPECT_EQ(again.data<float>()[2], 0);
  }
}

// Autocast keeps 16-bit values with the weights that they are of: those made within have no values.
TEST(NoCompute, AModelThatWasMeasuredUnderAutocastTrainsAsEver) {
  auto losses = [](bool measured_before) {
    manual_seed(3);
    Gpt model({.vocab_size = 211, .context = 32, .layers = 1, .heads = 4, .width = 256});
    optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
    const amp::Autocast scope(Device::cpu(), DType::bf16);
    if (measured_before) {
      const NoCompute no_compute;
      gpt_loss(model).backward();
      optimizer.zero_grad();
    }
    TensorList all;
    for (int step = 0; step < 2; ++step) {
      all.push_back(gpt_loss(model));
      all.back().backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    return all;
  };
  EXPECT_TRUE(testing::same_bits(losses(true), losses(false)));
}

TEST(NoCompute, AnomalyModeFindsNothing) {
  const NoCompute no_compute;
  const AnomalyMode anomaly;
  Gpt model({.vocab_size = 211, .context = 32, .layers = 2, .heads = 4, .width = 64});
  EXPECT_NO_THROW(gpt_loss(model).backward());
}

TEST(NoCompute, WhatIsOffloadedGoesNowhere) {
  auto offload = std::make_shared<recompute::Offload>();
  std::shared_ptr<recompute::OffloadedTensor> kept;
  {
    const NoCompute no_compute;
    kept = offload->put(randn({100, 200}));
    EXPECT_EQ(kept->fetch().numel(), 20'000);
  }
  EXPECT_EQ(offload->stats().offloaded_bytes, 80'000u);
  EXPECT_EQ(kept->fetch().to_vector<float>(), std::vector<float>(20'000))
      << "it has no values after it, either";
  const Tensor real = randn({100, 200});
  EXPECT_EQ(offload->put(real)->fetch().to_vector<float>(), real.to_vector<float>());
}

TEST(NoCompute, TheReportOfAUsersModelIsTheRealOne) {
  auto report = [](size_t budget) {
    BlockStack net;
    for (int i = 0; i < 6; ++i) net.add<TransformerBlock>(64, 4);
    optim::AdamW optimizer(net.parameters());
    auto loss = [&](int64_t rows) { return square(net(randn({rows, 16, 64}))).mean(); };
    return memory_report({.model = net, .loss = loss, .optimizer = &optimizer, .rows = 24, .budget = budget});
  };
  memory().empty_cache();
  const MemoryReport real = report(64 << 20);
  const NoCompute no_compute;
  const MemoryReport shapes = report(64 << 20);
  ASSERT_EQ(shapes.strategies.size(), real.strategies.size());
  for (size_t i = 0; i < real.strategies.size(); ++i) {
    EXPECT_EQ(shapes.strategies[i].peak, real.strategies[i].peak);
    EXPECT_EQ(shapes.strategies[i].peak_activations, real.strategies[i].peak_activations);
    EXPECT_EQ(shapes.strategies[i].most_rows, real.strategies[i].most_rows);
    EXPECT_EQ(shapes.strategies[i].seconds, 0) << "nothing is timed";
  }
  std::ostringstream text;
  text << shapes;
  EXPECT_NE(text.str().find("First that fits: none."), std::string::npos) << text.str();
  expect_error([&] { report(0); }, "memory_report: within a NoCompute the budget is to be given");
}

}  // namespace
}  // namespace reprise::nn
