// Saved tensors that are parts of others' memory, where a replay, a store or hooks give that memory back in
// pieces or with other strides.
#include "reprise/autograd/function.h"
#include "reprise/tests/autograd/recompute/offload/offload_support.h"

namespace reprise {
namespace {

using testing::leaf;
using testing::numbers;
using testing::same_bits;

// Pieces of it are smaller than half of their storage, so a store offloads them one by one.
constexpr int64_t kCount = 300;

// What may keep a region's tensors meanwhile.
enum class Keeper { memory, store, dense_copies };
constexpr Keeper kKeepers[] = {Keeper::memory, Keeper::store, Keeper::dense_copies};

Policy deciding(Decision decision) {
  return Policy([=](const PolicyOp&) { return decision; });
}

template <class Fn, class In>
auto kept_by(Keeper keeper, const Fn& fn, const In& in, CheckpointOptions options) {
  std::optional<autograd::SavedTensorHooks> hooks;
  if (keeper == Keeper::dense_copies)
    hooks.emplace([](const Tensor& t) { return std::any(t.clone()); },
                  [](const std::any& t) { return std::any_cast<Tensor>(t); });
  if (keeper == Keeper::store) options.offload = testing::all_sizes(0);
  return checkpoint(fn, in, options);
}

// Compares the gradient of run(leaf, call) where call is plain and where it is a checkpoint.
template <class Run, class Fn>
void expect_same_gradient(const Shape& shape, const Run& run, const Fn& fn) {
  Tensor x = leaf(shape), want = leaf(shape);
  run(want, fn).backward();
  for (Keeper keeper : kKeepers)
    for (Decision decision : {Decision::recompute, Decision::save, Decision::offload})
      for (bool policy : {true, false}) {
        if (decision == Decision::offload && keeper == Keeper::memory) continue;
        if (decision == Decision::offload && keeper == Keeper::dense_copies) continue;
        CheckpointOptions options;
        if (policy) options.policy = deciding(decision);
        x.set_grad({});
        run(x, [&](const auto& in) { return kept_by(keeper, fn, in, options); }).backward();
        EXPECT_TRUE(same_bits(x.grad(), want.grad()))
            << "keeper " << int(keeper) << (policy ? ", decision " : ", no policy ") << int(decision);
      }
}

TEST(Layout, AnInputComesBackWithOtherStrides) {
  auto run = [](const Tensor& x, auto&& call) { return sum(call(x.transpose(0, 1)) * numbers({6, 4}, 3)); };
  expect_same_gradient({4, 6}, run, [](const Tensor& in) { return sin(in); });
  expect_same_gradient({4, 6}, run,
                       [](const Tensor& in) { return exp(sin(in.transpose(0, 1)).transpose(0, 1)); });
}

TEST(Layout, InputsOfOneStorageComeBackApart) {
  auto run = [](const Tensor& x, auto&& call) {
    Tensor packed = exp(x);
    return sum(call(TensorList{packed.select(0, 1), packed.select(0, 4)}));
  };
  expect_same_gradient({6, kCount}, run, [](const TensorList& in) { return in[0] * in[1]; });
  expect_same_gradient({6, kCount}, run, [](const TensorList& in) { return sin(in[0] * in[1]); });
}

// exp and sin of x, as two rows of a buffer that is saved whole.
struct Rows : autograd::Function<Rows> {
  static constexpr const char* name = "rows";
  TensorList forward(const Tensor& x) {
    Tensor all = Tensor::empty({4, x.size(0)}, x.dtype(), x.device());
    all.select(0, 0).copy_(sin(x));
    all.select(0, 1).copy_(exp(x));
    all.select(0, 2).copy_(cos(x));
    all.select(0, 3).zero_();
    Tensor first = all.alias(all.select(0, 1).view()), second = all.alias(all.select(0, 0).view());
    save(all, first);
    return {first, second};
  }
  TensorList backward(const TensorList& dy) { return {dy[0] * saved(1) + dy[1] * saved(0).select(0, 2)}; }
};

// exp of x, which saves a buffer around its result.
struct Row : autograd::Function<Row> {
  static constexpr const char* name = "row";
  Tensor forward(const Tensor& x) {
    Tensor all = Tensor::zeros({4, x.size(0)}, x.dtype(), x.device());
    all.select(0, 2).copy_(exp(x));
    save(all);
    return all.alias(all.select(0, 2).view());
  }
  TensorList backward(const TensorList& dy) { return {dy[0] * saved(0).select(0, 2)}; }
};

TEST(Layout, ResultsThatArePartsOfWhatIsSaved) {
  auto run = [](const Tensor& x, auto&& call) { return sum(call(x)); };
  expect_same_gradient({kCount}, run, [](const Tensor& in) {
    TensorList rows = Rows::apply(in * 2.0);
    return exp(sin(rows[0]) * rows[1]);
  });
  expect_same_gradient({kCount}, run, [](const Tensor& in) { return exp(sin(Row::apply(in * 2.0))); });
}

// The transpose of exp(x), in memory of its own.
struct Turned : autograd::Function<Turned> {
  static constexpr const char* name = "turned";
  Tensor forward(const Tensor& x) {
    Tensor made = exp(x), y = made.alias(made.transpose(0, 1).view());
    save(y);
    return y;
  }
  TensorList backward(const TensorList& dy) { return {(dy[0] * saved(0)).transpose(0, 1)}; }
};

TEST(Layout, AResultWithStridesOfItsOwn) {
  auto run = [](const Tensor& x, auto&& call) { return sum(call(x) * numbers({6, 4}, 3)); };
  expect_same_gradient({4, 6}, run, [](const Tensor& in) { return sin(Turned::apply(in)); });
  expect_same_gradient(
      {4, 6}, run, [](const Tensor& in) { return exp(Turned::apply(in).transpose(0, 1)).transpose(0, 1); });
}

}  // namespace
}  // namespace reprise
