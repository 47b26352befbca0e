// A Gpt on the device `cuda` (the emulator here, a GPU where there is one) against the same Gpt on the CPU.
// not in tsan: GptDevice.GoesOnWhereTheCpuStopped
// slow in tsan
#include <filesystem>

#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/io/safetensors.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/ema.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

using testing::odd_gpt;
using testing::random_tokens;
using testing::same_bits;

class GptDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::cuda_count() == 0) GTEST_SKIP() << cuda::unavailable_reason();
  }
  const Device device = Device::cuda();
};

// A model with its optimizer, and its updates; all from one seed.
struct Training {
  Gpt model;
  optim::AdamW optimizer;
  optim::Ema average;

  explicit Training(Device device, double dropout = 0)
      : model(options(dropout), device),
        optimizer(optim::decay_matrices(model, 1e-2, 0.1)),
        average(model, 0.9) {}

  static GptOptions options(double dropout) {
    manual_seed(5);
    GptOptions o = odd_gpt();
    o.dropout = dropout;
    return o;
  }

  double update(uint64_t step) {
    Device device = model.wte.weight.device();
    Tensor tokens = random_tokens({4, 11}, 23, step % 4).to(device);
    Tensor loss = cross_entropy(model(tokens), random_tokens({4, 11}, 23, 10 + step % 4).to(device));
    loss.backward();
    optim::clip_grad_norm(model.parameters(), 1.0);
    optimizer.step();
    optimizer.zero_grad();
    average.update();
    return loss.item();
  }
};

TEST_F(GptDevice, StartsFromTheSameWeights) {
  Training here(Device::cpu()), there(device);
  NamedTensors want = here.model.state_dict(), got = there.model.state_dict();
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].second.device(), device) << got[i].first;
    EXPECT_TRUE(testing::is_close(got[i].second, want[i].second, 1e-6)) << got[i].first;
  }
}

TEST_F(GptDevice, TrainsToTheLossesOfTheCpu) {
  Training here(Device::cpu()), there(device);
  there.model.load_state_dict(here.model.state_dict());
  double first = 0, last = 0;
  for (uint64_t step = 0; step < 8; ++step) {
    double want = here.update(step), got = there.update(step);
    // Sums in another order, f32: the difference grows slowly with the steps.
    EXPECT_NEAR(got, want, 1e-4) << "step " << step;
    (step == 0 ? first : last) = got;
  }
  EXPECT_LT(last, first - 0.1);
  // Adam's first updates are the sign of the gradient times lr: rounding decides where it is nearly 0.
  NamedTensors want = here.average.state_dict(), got = there.average.state_dict();
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_TRUE(testing::is_close(got[i].second, want[i].second, 1e-2)) << want[i].first;
}

// Logits of so many tokens have rows that lie apart there.
TEST_F(GptDevice, OfAnOddVocabularyTrainsAndReadsAsOnTheCpu) {
  GptOptions options = odd_gpt();
  options.vocab_size = 1031;
  manual_seed(5);
  Gpt here(options), there(options, device);
  there.load_state_dict(here.state_dict());
  const Tensor tokens = random_tokens({3, 7}, options.vocab_size, 1),
               targets = random_tokens({3, 7}, options.vocab_size, 2);
  const Tensor logits = there(tokens.to(device));
  EXPECT_FALSE(logits.is_contiguous());
  EXPECT_TRUE(testing::is_close(logits, here(tokens), 1e-5));
  EXPECT_TRUE(testing::is_close(there.next_logits(tokens.to(device)), here.next_logits(tokens), 1e-5));
  EXPECT_TRUE(same_bits(argmax(logits, -1), argmax(logits.contiguous(), -1)));
  EXPECT_TRUE(testing::is_close(softmax(logits), softmax(here(tokens)), 1e-6));
  Tensor want = cross_entropy(here(tokens), targets),
         got = cross_entropy(there(tokens.to(device)), targets.to(device));
  EXPECT_NEAR(got.item(), want.item(), 1e-5);
  (want * 100.0).backward(), (got * 100.0).backward();
  const TensorList mine = here.parameters(), theirs = there.parameters();
  for (size_t i = 0; i < mine.size(); ++i)
    EXPECT_TRUE(testing::is_close(theirs[i].grad(), mine[i].grad(), 1e-5)) << "parameter " << i;
}

TEST_F(GptDevice, DropsWhatTheCpuDrops) {
  Training here(Device::cpu(), 0.3), there(device, 0.3);
  there.model.load_state_dict(here.model.state_dict());
  Tensor tokens = random_tokens({4, 11}, 23, 1);
  manual_seed(9);
  Tensor want = here.model(tokens);
  manual_seed(9);
  EXPECT_TRUE(testing::is_close(there.model(tokens.to(device)), want, 1e-5));
}

TEST_F(GptDevice, GoesOnWhereTheCpuStopped) {
  Training here(Device::cpu()), there(device);
  for (uint64_t step = 0; step < 3; ++step) here.update(step);
  there.model.load_state_dict(here.model.state_dict());
  there.optimizer.load_state_dict(here.optimizer.state_dict());
  there.average.load_state_dict(here.average.state_dict());
  for (const auto& [name, tensor] : there.optimizer.state_dict())
    EXPECT_EQ(tensor.device(), name.ends_with("moment") ? device : Device::cpu()) << name;
  for (uint64_t step = 3; step < 6; ++step) EXPECT_NEAR(there.update(step), here.update(step), 1e-4);
  here.optimizer.load_state_dict(there.optimizer.state_dict());  // and back
  EXPECT_EQ(here.optimizer.state_dict()[0].second.device(), Device::cpu());
}

TEST_F(GptDevice, IsSavedFromWhereItIs) {
  Training there(device);
  std::string path =
      (std::filesystem::temp_directory_path() / "reprise_gpt_device_test.safetensors").string();
  io::NamedViews views;
  for (const auto& [name, tensor] : there.model.state_dict()) views.emplace_back(name, tensor.view());
  Tensor rows = random_tokens({3, 4}, 9, 1).to(device);
  Tensor columns = rows.transpose(0, 1);
  views.emplace_back("columns", columns.view());
  io::write_safetensors(path, views);
  io::SafetensorsFile file(path);
  for (const auto& [name, tensor] : there.model.state_dict())
    EXPECT_TRUE(same_bits(file.read(name), tensor.detach().to(Device::cpu()))) << name;
  EXPECT_EQ(file.read("columns").to_vector<int64_t>(), columns.to_vector<int64_t>());
  std::filesystem::remove(path);
}

TEST_F(GptDevice, RefusesTokensOfAnotherDevice) {
  Training there(device);
  testing::expect_error([&] { there.model(random_tokens({1, 3}, 23, 1)); }, {"cuda:0", "cpu"});
}

TEST_F(GptDevice, NamesATokenOutsideOfItsVocabulary) {
  Training there(device);
  Tensor tokens = Tensor::from<int64_t>({1, 23, 2}, {1, 3}, device);
  testing::expect_error([&] { there.model(tokens).to_vector<float>(); }, {"embedding", "23"});
  synchronize(device);  // said once
}

TEST_F(GptDevice, LeavesNoMemoryBehind) {
  synchronize(device);
  size_t before = allocator(device).stats().allocated;
  {
    Training there(device);
    there.update(0);
    EXPECT_GT(allocator(device).stats().by_category[size_t(MemoryCategory::parameters)], 0u);
    EXPECT_GT(allocator(device).stats().by_category[size_t(MemoryCategory::optimizer)], 0u);
  }
  EXPECT_EQ(allocator(device).stats().allocated, before);
}

}  // namespace
}  // namespace reprise::nn
