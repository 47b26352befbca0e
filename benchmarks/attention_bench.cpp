// Attention's speed on the shapes that GPT training uses: causal, f32 and bf16, views of a packed (B, T, 3, H, D)
// projection; with dropout, and with the causal mask given as a boolean one (T, T). GFLOP/s count only what the mask leaves:
// T (T + 1) / 2 pairs, 4 D operations a pair forward and 10 D backward.
//
//   attention_bench [threads]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "reprise/core/parallel.h"
#include "reprise/kernels/attention/attention.h"

namespace {

using namespace reprise;

struct Sizes {
  int64_t batch, heads, length, head_dim;
};

/// What a call has besides q, k and v.
struct Extra {
  const char* name;
  double dropout = 0;
  bool mask = false;
};

/// Medians of seconds forward and backward.
struct Seconds {
  double forward, backward;
};

double seconds_of(const auto& body) {
  auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class T>
std::vector<T> normal_values(int64_t count) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<T> values(static_cast<size_t>(count));
  for (T& x : values) x = T(normal(engine));
  return values;
}

template <class T>
Seconds measure(Sizes s, Extra extra) {
  int64_t width = s.heads * s.head_dim, tokens = s.batch * s.length;
  auto qkv = normal_values<T>(tokens * 3 * width), dqkv = qkv, out = normal_values<T>(tokens * width),
       dout = out;
  std::vector<float> lse(size_t(tokens * s.heads));
  auto head_view = [&](std::vector<T>& data, int64_t slot, int64_t slots) {
    return TensorView{data.data() + slot * width,
                      {s.batch, s.heads, s.length, s.head_dim},
                      {s.length * slots * width, s.head_dim, slots * width, 1},
                      dtype_of<T>,
                      Device::cpu()};
  };
  Shape rows{s.batch, s.heads, s.length};
  TensorView lse_view{lse.data(), rows, contiguous_strides(rows), DType::f32, Device::cpu()};
  auto q = head_view(qkv, 0, 3), k = head_view(qkv, 1, 3), v = head_view(qkv, 2, 3);
  auto dq = head_view(dqkv, 0, 3), dk = head_view(dqkv, 1, 3), dv = head_view(dqkv, 2, 3);
  auto o = head_view(out, 0, 1), d = head_view(dout, 0, 1);
  std::vector<uint8_t> bits;
  for (int64_t i = 0; i < s.length * s.length; ++i) bits.push_back(i % s.length <= i / s.length);
  TensorView mask;
  if (extra.mask)
    mask = {bits.data(),
            {s.batch, s.heads, s.length, s.length},
            {0, 0, s.length, 1},
            DType::boolean,
            Device::cpu()};
  kernels::AttentionOptions options{.causal = !extra.mask, .dropout = extra.dropout};
  Stream stream(Device::cpu());
  std::vector<double> forward, backward;
  for (double total = 0; total < 0.4 || forward.size() < 5;) {
    forward.push_back(seconds_of([&] {
      kernels::attention(
          stream, {.q = q, .k = k, .v = v, .options = options, .out = o, .lse = lse_view, .mask = mask});
    }));
    backward.push_back(seconds_of([&] {
      kernels::attention_backward(stream, {.dout = d,
                                           .q = q,
                                           .k = k,
                                           .v = v,
                                           .out = o,
                                           .lse = lse_view,
                                           .options = options,
                                           .dq = dq,
                                           .dk = dk,
                                           .dv = dv,
                                           .mask = mask});
    }));
    total += forward.back() + backward.back();
  }
  auto median = [](std::vector<double>& times) {
    std::nth_element(times.begin(), times.begin() + long(times.size() / 2), times.end());
    return times[times.size() / 2];
  };
  return {median(forward), median(backward)};
}

template <class T>
void print_times(Sizes s, Extra extra) {
  Seconds t = measure<T>(s, extra);
  double pairs = double(s.batch * s.heads) * double(s.length * (s.length + 1)) / 2 * double(s.head_dim);
  char name[64];
  std::snprintf(name, sizeof name, "%ldx%ldx%ldx%ld", s.batch, s.heads, s.length, s.head_dim);
  std::printf("%-18s %-6s %-8s %10.1f (%5.1f) %10.1f (%5.1f) %10.1f (%5.1f)\n", name,
              name_of(dtype_of<T>).data(), extra.name, t.forward * 1e6, 4 * pairs / t.forward / 1e9,
              t.backward * 1e6, 10 * pairs / t.backward / 1e9, (t.forward + t.backward) * 1e6,
              14 * pairs / (t.forward + t.backward) / 1e9);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) set_num_threads(std::atoi(argv[1]));
  std::printf("%d threads; microseconds (GFLOP/s)\n%-18s %-6s %-8s %18s %18s %18s\n", num_threads(),
              "B x H x T x D", "dtype", "", "forward", "backward", "both");
  for (Sizes s :
       {Sizes{12, 4, 64, 32}, {16, 6, 256, 64}, {4, 12, 64, 64}, {4, 12, 256, 64}, {4, 12, 1024, 64}})
    for (Extra extra : {Extra{"causal"}, {"dropout", 0.2}, {"mask", 0, true}}) {
      print_times<float>(s, extra);
      print_times<BFloat16>(s, extra);
    }
}
