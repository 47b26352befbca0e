// Operations in place inside checkpoints: the bits of a run without one in both modes, and Errors for what came from outside.
#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops/index/indexing.h"
#include "reprise/tests/autograd/recompute/counted_ops.h"
#include "reprise/tests/autograd/recompute/in_place_bodies.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise {
namespace {

using Body = testing::InPlaceBody;
using testing::expect_error;
using testing::in_place_bodies;
using testing::kModes;
using testing::leaf;
using testing::name_of;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;
using testing::test_device;

TensorList results(const Body& body,
                   const std::function<Tensor(const Body&, const Tensor&, const Tensor&)>& run) {
  const Tensor a = leaf({4, 3}, 1), w = leaf({3}, 2);
  manual_seed(4);
  const Tensor y = run(body, tanh(a), w);
  sum(square(y)).backward();
  return {y.detach(), a.grad(), w.grad()};
}

TEST(InPlaceCheckpoint, HasTheBitsOfARunWithoutOne) {
  for (const Body& body : in_place_bodies()) {
    const TensorList want =
        results(body, [](const Body& fn, const Tensor& x, const Tensor& w) { return fn(x, w); });
    for (CheckpointMode mode : kModes)
      for (int depth : {1, 2}) {
        SCOPED_TRACE(detail::join(name_of(mode), " at depth ", depth));
        NoLeaks guard;
        EXPECT_TRUE(same_bits(results(body,
                                      [&](Body fn, const Tensor& x, const Tensor& w) {
                                        for (int i = 1; i < depth; ++i)
                                          fn = [fn, mode](const Tensor& in, const Tensor& other) {
                                            return checkpoint(fn, std::tuple{in, other}, {.mode = mode});
                                          };
                                        return checkpoint(fn, std::tuple{x, w}, {.mode = mode});
                                      }),
                              want));
      }
    for (const char* kept : {"exp", "mul", "add_", "index_put", "matmul", "tanh"}) {
      SCOPED_TRACE(kept);
      EXPECT_TRUE(same_bits(results(body,
                                    [&](const Body& fn, const Tensor& x, const Tensor& w) {
                                      return checkpoint(fn, std::tuple{x, w}, {.policy = {kept}});
                                    }),
                            want));
    }
    // With a policy around it the first run copies where the replay writes.
    EXPECT_TRUE(same_bits(
        results(body,
                [&](const Body& fn, const Tensor& x, const Tensor& w) {
                  auto inner = [fn](const Tensor& in, const Tensor& other) {
                    return checkpoint(fn, std::tuple{in, other}, {.determinism = Determinism::values});
                  };
                  return checkpoint(inner, std::tuple{x, w}, {.policy = {"tanh"}});
                }),
        want));
    for (Determinism determinism : {Determinism::none, Determinism::values})
      EXPECT_TRUE(same_bits(results(body,
                                    [&](const Body& fn, const Tensor& x, const Tensor& w) {
                                      return checkpoint(fn, std::tuple{x, w}, {.determinism = determinism});
                                    }),
                            want));
  }
}

TEST(InPlaceCheckpoint, CapturesItsWeightsToo) {
  const Tensor w = leaf({3}, 2);
  auto run = [&](const std::optional<CheckpointMode>& mode) {
    const Tensor x = leaf({4, 3}, 1);
    w.set_grad({});
    auto fn = [&](const Tensor& in) {
      Tensor only_written = zeros({4, 3}, DType::f32, in.device());
      only_written.copy_(w);  // read by no other operation
      return in + only_written;
    };
    sum(square(mode ? checkpoint(fn, x, {.mode = *mode}) : fn(x))).backward();
    return TensorList{x.grad(), w.grad()};
  };
  const TensorList want = run({});
  for (CheckpointMode mode : kModes) EXPECT_TRUE(same_bits(run(mode), want));
}

// Returned as it is: in reentrant mode the first run, which records nothing, has only written it. What it was written with is reached
// by no other operation, and has its gradient once in a pass.
TEST(InPlaceCheckpoint, GivesAGradientToWhatWasOnlyWritten) {
  const Tensor w = leaf({3}, 2);
  int hooks = 0;
  w.register_hook([&](const Tensor&) { return ++hooks, Tensor(); });
  auto run = [&](const std::optional<CheckpointMode>& mode) {
    const Tensor x = leaf({3}, 1);
    w.set_grad({});
    hooks = 0;
    auto fn = [&](const Tensor& in) {
      Tensor buffer = zeros({2, 3}, DType::f32, in.device());
      buffer.index_put_({0}, in);
      buffer.index_put_({1}, w);
      return buffer;
    };
    const Tensor y = mode ? checkpoint(fn, x, {.mode = *mode}) : fn(x);
    EXPECT_TRUE(y.requires_grad());
    (sum(square(y)) + sum(w)).backward();
    EXPECT_EQ(hooks, 1);
    return TensorList{y.detach(), x.grad(), w.grad()};
  };
  const TensorList want = run({});
  for (CheckpointMode mode : kModes) EXPECT_TRUE(same_bits(run(mode), want));
}

// What a replay would not find again as the first run found it.
TEST(InPlaceCheckpoint, RefusesWhatCameFromOutside) {
  for (CheckpointMode mode : kModes) {
    SCOPED_TRACE(name_of(mode));
    const Tensor w = leaf({3}), x = w * 2.0;
    const CheckpointOptions options{.mode = mode};
    auto message =
        "in a checkpoint, fn changes a tensor of shape (3,) in place that it was given or captured";
    expect_error([&] { checkpoint([](const Tensor& in) { return in.mul_(2) * 1.0; }, w * 2.0, options); },
                 message);
    expect_error([&] { checkpoint([&](const Tensor& in) { return x.add_(in) * 1.0; }, w * 3.0, options); },
                 message);
    const Tensor part = w * 2.0;
    expect_error(
        [&] { checkpoint([](const Tensor& in) { return in[{Slice(0, 3)}].relu_() * 1.0; }, part, options); },
        "relu_");
    // A buffer that is no part of a graph, written with what is: a replay says so, or the first run.
    const Tensor buffer = zeros({3}, DType::f32, test_device());
    auto fills = [&](const Tensor& in) {
      buffer.copy_(in * 2.0);
      return in * 2.0 + buffer;
    };
    expect_error([&] { sum(square(checkpoint(fills, w, options))).backward(); }, "copy_");
  }
}

// The value that a region was given is the one that its replay has, whatever takes its place afterwards.
TEST(InPlaceCheckpoint, KeepsWhatItWasGiven) {
  auto run = [](const std::optional<CheckpointMode>& mode) {
    const Tensor w = leaf({3}, 5);
    Tensor x = w * 2.0;
    const Tensor given = x;
    auto fn = [](const Tensor& in) { return sin(in) * in; };
    const Tensor y = mode ? checkpoint(fn, x, {.mode = *mode}) : fn(x);
    x.mul_(3).index_put_({0}, 1);  // another handle has it: a new value
    sum(y * x).backward();
    return w.grad();
  };
  const Tensor want = run({});
  for (CheckpointMode mode : kModes) EXPECT_TRUE(same_bits(run(mode), want)) << name_of(mode);
  // What fn captures it finds changed.
  for (CheckpointMode mode : kModes) {
    const Tensor w = leaf({3}, 5);
    Tensor x = w * 2.0;
    const Tensor y = checkpoint([&](const Tensor& in) { return sin(in) * x; }, w, {.mode = mode});
    x.mul_(3);
    expect_error([&] { sum(y).backward(); }, "captured");
  }
}

// What fn reached by itself, by detach alone or as well as by its argument, and that has another value since.
TEST(InPlaceCheckpoint, FindsThatWhatItDetachedWasChanged) {
  for (CheckpointMode mode : kModes)
    for (Determinism determinism : {Determinism::none, Determinism::metadata}) {
      SCOPED_TRACE(detail::join(name_of(mode), ", determinism ", int(determinism)));
      const CheckpointOptions options{.mode = mode, .determinism = determinism};
      auto refuses = [&](const std::function<Tensor(const Tensor& in, const Tensor& x)>& fn, bool given,
                         const char* message) {
        for (bool shared : {false, true}) {  // then another value lies elsewhere, else where the old one was
          const Tensor w = leaf({3}, 5);
          Tensor x = w * 2.0;
          const Tensor held = shared ? x : Tensor();
          const Tensor y = checkpoint([&](const Tensor& in) { return fn(in, x); }, given ? x : w, options);
          x.mul_(3);
          expect_error([&] { sum(y).backward(); }, message);
        }
      };
      auto by_detach = [](const Tensor& in, const Tensor& x) { return sin(in) * x.detach(); };
      auto by_part = [](const Tensor& in, const Tensor& x) { return sin(in) * x.detach()[0]; };
      auto by_handle = [](const Tensor& in, const Tensor& x) { return sin(in) * x; };
      // The handle that is read first is gone when the other one is changed.
      auto by_both = [](const Tensor& in, const Tensor& x) { return sin(in) * x.detach() + cos(x) * in; };
      for (const auto& fn : {+by_detach, +by_part, +by_handle, +by_both}) {
        refuses(fn, false, "that fn captured");
        refuses(fn, true, "that the first run was given, and which was changed in place since");
      }
      {  // another handle of it is read before, and has the old value still
        const Tensor w = leaf({3}, 5);
        Tensor x = w * 2.0;
        const Tensor other = x.detach();
        const Tensor y = checkpoint([&](const Tensor& in) { return in * other * x; }, w, options);
        x.mul_(3);
        expect_error([&] { sum(y).backward(); }, "that fn captured");
      }
      refuses([](const Tensor& in, const Tensor& x) { return sin(in) * x.to_vector<float>()[0]; }, true,
              "that the first run was given");
      // What is detached and not read may change.
      const Tensor w = leaf({3}, 5);
      Tensor x = w * 2.0;
      const Tensor y = checkpoint(
          [&](const Tensor& in) {
            const Tensor unread = x.detach();
            return sin(in) * in;
          },
          w, options);
      x.mul_(3);
      sum(y).backward();
      EXPECT_TRUE(same_bits(w.grad(), (cos(w) * w + sin(w)).detach()) ||
                  testing::is_close(w.grad(), (cos(w) * w + sin(w)).detach(), 1e-6));
    }
}

// State that the first run alone changes, more than once, of what a gradient reaches.
TEST(InPlaceCheckpoint, LetsTheFirstRunWriteStateTwice) {
  auto run = [](const std::optional<CheckpointMode>& mode) {
    const Tensor w = leaf({3}, 5), average = zeros({3}, DType::f32, test_device());
    auto fn = [&](const Tensor& in) {
      Tensor h = sin(in);
      for (int i = 0; i < 2; ++i)
        if (!recompute::is_replaying()) {
          average.mul_(0.75);
          average.add_(h.detach(), 0.25);
          average.index_put_({0}, h.detach()[1], true);
        }
      return h * in;
    };
    sum(mode ? checkpoint(fn, w, {.mode = *mode}) : fn(w)).backward();
    return TensorList{average, w.grad()};
  };
  const TensorList want = run({});
  for (CheckpointMode mode : kModes) {
    SCOPED_TRACE(name_of(mode));
    EXPECT_TRUE(same_bits(run(mode), want));
  }
}

// No gradient goes through integers: they are written, and no new value takes their place.
TEST(InPlaceCheckpoint, LetsTheFirstRunWriteIntegersByWhatHasAGradient) {
  for (CheckpointMode mode : kModes) {
    SCOPED_TRACE(name_of(mode));
    const Tensor w = leaf({3}, 5), counts = zeros({3}, DType::i64, test_device());
    auto fn = [&](const Tensor& in) {
      if (!recompute::is_replaying()) counts.copy_(in * 0.0 + 7.0);
      return in * in;
    };
    sum(checkpoint(fn, w, {.mode = mode})).backward();
    EXPECT_EQ(counts.to_vector<int64_t>(), (std::vector<int64_t>{7, 7, 7}));
    EXPECT_TRUE(same_bits(w.grad(), w.detach() * 2.0));
  }
}

// Bytes that a region takes in which a buffer of `rows` is filled row by row, forward and back.
size_t bytes_to_fill(int64_t rows,
                     const std::function<Tensor(std::function<Tensor(const Tensor&)>, const Tensor&)>& run) {
  constexpr int64_t width = 64;
  const Tensor w = leaf({width}, 1);
  auto fill = [rows](const Tensor& in) {
    Tensor buffer = zeros({rows, width}, DType::f32, in.device());
    for (int64_t i = 0; i < rows; ++i) buffer.index_put_({i}, in * double(i));
    return buffer * buffer;
  };
  Allocator& memory = allocator(test_device());
  memory.start_recording();
  sum(run(fill, w)).backward();
  size_t bytes = 0;
  for (const MemoryEvent& event : memory.stop_recording())
    if (event.bytes > 0) bytes += size_t(event.bytes);
  const Tensor got = w.grad();
  w.set_grad({});
  sum(fill(w)).backward();
  EXPECT_TRUE(same_bits(got, w.grad()));
  return bytes;
}

TEST(InPlaceCheckpoint, FillsABufferInTimeThatGrowsWithItsSize) {
  for (CheckpointMode mode : kModes)
    for (int depth : {1, 2, 3}) {
      SCOPED_TRACE(detail::join(name_of(mode), " at depth ", depth));
      auto run = [&](std::function<Tensor(const Tensor&)> fn, const Tensor& x) {
        for (int i = 1; i < depth; ++i)
          fn = [fn, mode](const Tensor& in) { return checkpoint(fn, in, {.mode = mode}); };
        return checkpoint(fn, x, {.mode = mode});
      };
      const size_t once = bytes_to_fill(32, run), four_times = bytes_to_fill(128, run);
      EXPECT_LT(four_times, 5 * once);
    }
  // What a policy keeps of another operation is no reason to copy.
  auto selective = [](const std::function<Tensor(const Tensor&)>& fn, const Tensor& x) {
    return checkpoint(fn, x, {.policy = {"affine", "mul"}});
  };
  EXPECT_LT(bytes_to_fill(128, selective), 5 * bytes_to_fill(32, selective));
}

// Memory that was written outside of the graph first: a replay that has the kept value, and changes it, writes nothing again.
TEST(InPlaceCheckpoint, ChangesWhatItsPolicyKept) {
  auto run = [](bool recomputes) {
    const Tensor w = leaf({3}, 2);
    auto fn = [](const Tensor& in) {
      Tensor buffer = zeros({3}, DType::f32, in.device());
      buffer.fill_(1.5);
      buffer.add_(in);
      Tensor h = tanh(buffer * 2.0);
      buffer.index_put_({0}, h[1]);
      return exp(buffer) * h;
    };
    sum(recomputes ? checkpoint(fn, w, {.policy = {"add_"}}) : fn(w)).backward();
    return w.grad();
  };
  EXPECT_TRUE(same_bits(run(true), run(false)));
}

// What an operation in place made is asked for by its name, and what a policy keeps of it stays what it was.
TEST(InPlaceCheckpoint, AsksItsPolicyOnceForEachOperation) {
  for (const char* kept : {"", "index_put", "zeros", "affine"}) {
    SCOPED_TRACE(kept);
    int asked = 0;
    auto policy = [&asked, kept](const PolicyOp& op) {
      asked += op.name == "index_put";
      return op.name == kept ? Decision::save : Decision::recompute;
    };
    auto run = [&](bool recomputes) {
      const Tensor w = leaf({3}, 2);
      auto fn = [](const Tensor& in) {
        Tensor buffer = in * 2.0, read = in;
        for (int64_t i = 0; i < 3; ++i) {
          buffer.index_put_({i}, tanh(read[i]));
          if (i == 1) read = read * buffer;
        }
        return exp(buffer) * read;
      };
      sum(recomputes ? checkpoint(fn, w, {.policy = policy}) : fn(w)).backward();
      return w.grad();
    };
    EXPECT_TRUE(same_bits(run(true), run(false)));
    EXPECT_EQ(asked, 3);
  }
}

// A buffer that nothing reads is not filled again, though its memory was written over and over.
TEST(InPlaceCheckpoint, LeavesOutWhatFillsABufferThatNothingReads) {
  testing::runs().clear();
  const Tensor x = leaf({3}, 1), w = leaf({3}, 2);
  auto fn = [](const Tensor& in, const Tensor& weight) {
    Tensor buffer = zeros({4, 3}, DType::f32, in.device());
    for (int64_t i = 0; i < 4; ++i) buffer.index_put_({i}, testing::Times<'a'>::apply(in, weight));
    return std::tuple{square(buffer), testing::Times<'b'>::apply(tanh(in), weight)};
  };
  auto [dead, y] = checkpoint(fn, std::tuple{x, w});
  dead = Tensor();
  sum(y).backward();
  EXPECT_EQ(testing::runs()["a"], 4) << "the first run's";
}

TEST(InPlaceCheckpoint, HasTheBitsOfGradientsOfGradients) {
  for (const Body& body : in_place_bodies()) {
    auto run = [&](bool recomputes) {
      const Tensor a = leaf({4, 3}, 1), w = leaf({3}, 2);
      manual_seed(4);
      const Tensor y = recomputes ? checkpoint(body, std::tuple{tanh(a), w}) : body(tanh(a), w);
      const TensorList first = autograd::grad({sum(square(y))}, {a, w}, {}, {.create_graph = true});
      sum(square(first[0]) * 0.5 + first[1]).backward();
      return TensorList{first[0].detach(), first[1].detach(), a.grad(), w.grad()};
    };
    EXPECT_TRUE(same_bits(run(true), run(false)));
  }
}

TEST(InPlaceCheckpoint, HasTheBitsOfARunUnderAutocast) {
  for (const Body& body : in_place_bodies()) {
    auto run = [&](const std::optional<CheckpointMode>& mode) {
      const Tensor a = leaf({4, 3}, 1), w = leaf({3}, 2), m = leaf({3, 3}, 3);
      Tensor y;
      {
        manual_seed(4);
        const amp::Autocast scope(test_device(), DType::bf16);
        auto fn = [&](const Tensor& x, const Tensor& weight) {
          return body(linear(x, m).to(DType::f32), weight);
        };
        y = mode ? checkpoint(fn, std::tuple{tanh(a), w}, {.mode = *mode}) : fn(tanh(a), w);
      }
      sum(square(y)).backward();
      return TensorList{y.detach(), a.grad(), w.grad(), m.grad()};
    };
    const TensorList want = run({});
    for (CheckpointMode mode : kModes) {
      SCOPED_TRACE(name_of(mode));
      EXPECT_TRUE(same_bits(run(mode), want));
    }
  }
}

// A backward pass that fn runs reads what was filled in place: in the first run from a slot, in the replay where it lies.
TEST(InPlaceCheckpoint, HasTheBitsOfGradientsThatItTakesItself) {
  auto run = [](bool recomputes, bool second) {
    const Tensor a = leaf({4, 3}, 1), w = leaf({3}, 2);
    auto fn = [second](const Tensor& x, const Tensor& weight) {
      EnableGrad on;
      const Tensor at = x.detach().set_requires_grad();
      Tensor b = zeros({4, 3}, DType::f32, x.device());
      for (int64_t i = 0; i < 4; ++i) b.index_put_({i}, tanh(at[i]) * weight);
      const Tensor g =
          autograd::grad({sum(square(b))}, {at}, {}, {.retain_graph = true, .create_graph = second})[0];
      Tensor out = x * weight;
      out.add_(g);
      out.index_put_({Slice(), 1}, g[{Slice(), 0}], true);
      return out * b;
    };
    const Tensor y = recomputes ? checkpoint(fn, std::tuple{a, w}) : fn(a, w);
    sum(square(y)).backward();
    return TensorList{y.detach(), a.grad(), w.grad()};
  };
  for (bool second : {false, true}) EXPECT_TRUE(same_bits(run(true, second), run(false, second)));
}

}  // namespace
}  // namespace reprise
