// Sgd on parameters of half types: they are updated in master copies of f32, and are these rounded.
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/nn/optim/half_parameters.h"

namespace reprise::optim {
namespace {

using namespace testing;

TEST(SgdMaster, IsTheTextbooksUpdateAndTheParameterIsItRounded) {
  for (DType dtype : {DType::bf16, DType::f16})
    for (double momentum : {0.0, 0.9}) {
      TensorList parameters = half_parameters(dtype);
      std::vector<Doubles> want, velocity;
      for (const Tensor& x : parameters) want.push_back(x.detach().to_vector<double>());
      velocity.resize(want.size());
      Sgd optimizer(parameters, {.lr = 1e-4, .momentum = momentum, .weight_decay = 0.1});
      for (uint64_t step = 0; step < 9; ++step) {
        set_half_gradients(parameters, step);
        for (size_t p = 0; p < want.size(); ++p) {
          const Doubles g = parameters[p].grad().to_vector<double>();
          velocity[p].resize(g.size());
          for (size_t i = 0; i < g.size(); ++i) {
            velocity[p][i] = momentum * velocity[p][i] + g[i] + 0.1 * want[p][i];
            want[p][i] -= 1e-4 * velocity[p][i];
          }
        }
        optimizer.step();
      }
      for (size_t p = 0; p < want.size(); ++p) {
        const Tensor master = state_of(optimizer, std::to_string(p) + ".master");
        ASSERT_TRUE(master.defined());
        EXPECT_TRUE(is_close(master.to_vector<double>(), want[p], 1e-6)) << "a few f32 roundings a step";
        EXPECT_TRUE(same_bits(parameters[p].detach(), master.to(dtype)));
      }
      TensorList copies = copies_of(parameters);
      Sgd resumed(copies, {.lr = 1e-4, .momentum = momentum, .weight_decay = 0.1});
      resumed.load_state_dict(copy_of(optimizer.state_dict()));
      for (const TensorList& list : {parameters, copies}) set_half_gradients(list, 9);
      optimizer.step();
      resumed.step();
      expect_same_state(resumed, optimizer);
    }
}

}  // namespace
}  // namespace reprise::optim
