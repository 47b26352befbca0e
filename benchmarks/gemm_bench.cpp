// Our matrix multiply beside OpenBLAS and oneDNN, where they are installed, on the shapes of GPT training:
// forward Y = X W^T, dX = dY W, dW = dY^T X. Rounds are interleaved; a line gives medians in GFLOP/s.
//
//   OMP_WAIT_POLICY=passive gemm_bench [threads] [rounds]
//
// Without the variable, a peer's OpenMP threads keep spinning on the cores while the next one is measured.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "reprise/core/parallel.h"
#include "reprise/kernels/gemm/gemm.h"

#ifdef REPRISE_HAS_OPENBLAS
#include <cblas.h>
#endif
#ifdef REPRISE_HAS_ONEDNN
#include <dnnl.h>
#endif

namespace {

using namespace reprise;

/// One product; a transposed operand is stored the other way round.
struct Problem {
  const char* pass;
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  float *a, *b, *c;
};

void multiply_ours(const Problem& p) {
  TensorView a{p.a, {p.m, p.k}, p.transpose_a ? Strides{1, p.m} : Strides{p.k, 1}, DType::f32, Device::cpu()};
  TensorView b{p.b, {p.k, p.n}, p.transpose_b ? Strides{1, p.k} : Strides{p.n, 1}, DType::f32, Device::cpu()};
  TensorView c{p.c, {p.m, p.n}, {p.n, 1}, DType::f32, Device::cpu()};
  kernels::gemm(Stream(Device::cpu()), {.a = a, .b = b, .c = c});
}

struct Peer {
  const char* name;
  void (*multiply)(const Problem&);
};

std::vector<Peer> peers() {
  std::vector<Peer> list{{"ours", multiply_ours}};
#ifdef REPRISE_HAS_OPENBLAS
  list.push_back({"openblas", [](const Problem& p) {
                    cblas_sgemm(CblasRowMajor, p.transpose_a ? CblasTrans : CblasNoTrans,
                                p.transpose_b ? CblasTrans : CblasNoTrans, int(p.m), int(p.n), int(p.k), 1,
                                p.a, int(p.transpose_a ? p.m : p.k), p.b, int(p.transpose_b ? p.k : p.n), 0,
                                p.c, int(p.n));
                  }});
#endif
#ifdef REPRISE_HAS_ONEDNN
  list.push_back({"dnnl_sgemm", [](const Problem& p) {
                    dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n, p.k, 1, p.a,
                               p.transpose_a ? p.m : p.k, p.b, p.transpose_b ? p.k : p.n, 0, p.c, p.n);
                  }});
#endif
  return list;
}

std::vector<float> normal_values(int64_t count) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[size_t(i)] = i < 65536 ? normal(engine) : values[size_t(i - 65521)];
  return values;
}

double seconds_of(const Peer& peer, const Problem& p, int64_t repeats) {
  auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < repeats; ++i) peer.multiply(p);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / double(repeats);
}

/// Median GFLOP/s of each peer, all taking turns.
std::vector<double> measure(const std::vector<Peer>& list, const Problem& p, int rounds) {
  const double flops = 2.0 * double(p.m) * double(p.n) * double(p.k);
  const int64_t repeats = std::max<int64_t>(1, int64_t(1e9 / flops));
  std::vector<std::vector<double>> seconds(list.size());
  for (const Peer& peer : list) seconds_of(peer, p, 1);
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < list.size(); ++i) seconds[i].push_back(seconds_of(list[i], p, repeats));
  std::vector<double> rates;
  for (auto& s : seconds) {
    std::nth_element(s.begin(), s.begin() + rounds / 2, s.end());
    rates.push_back(flops / s[size_t(rounds / 2)] / 1e9);
  }
  return rates;
}

struct Linear {
  int64_t tokens, in, out;
};

std::vector<Linear> layers() {
  std::vector<Linear> list;
  for (int64_t width : {128, 384, 768})
    for (int64_t tokens : {256, 768, 4096}) {
      list.push_back({tokens, width, 3 * width});
      list.push_back({tokens, width, width});
      list.push_back({tokens, width, 4 * width});
      list.push_back({tokens, 4 * width, width});
      if (width < 768) list.push_back({tokens, width, 65});
    }
  list.push_back({256, 768, 50257});
  return list;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) set_num_threads(std::atoi(argv[1]));
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  const std::vector<Peer> list = peers();
  std::vector<float> a = normal_values(4096 * 50257 / 8), b = normal_values(768 * 50257),
                     c = normal_values(768 * 50257);
  std::printf("%-8s %6s %6s %6s", "pass", "M", "N", "K");
  for (const Peer& peer : list) std::printf(" %10s", peer.name);
  std::printf("   GFLOP/s, %d threads\n", num_threads());
  std::vector<double> logs(list.size());
  int count = 0;
  for (auto [tokens, in, out] : layers()) {
    Problem passes[] = {{"forward", tokens, out, in, false, true, a.data(), b.data(), c.data()},
                        {"dX", tokens, in, out, false, false, a.data(), b.data(), c.data()},
                        {"dW", out, in, tokens, true, false, a.data(), b.data(), c.data()}};
    for (const Problem& p : passes) {
      std::printf("%-8s %6ld %6ld %6ld", p.pass, long(p.m), long(p.n), long(p.k));
      auto rates = measure(list, p, rounds);
      for (size_t i = 0; i < list.size(); ++i) {
        std::printf(" %10.1f", rates[i]);
        logs[i] += std::log(rates[i]);
      }
      std::printf("\n");
      ++count;
    }
  }
  std::printf("%-29s", "geometric mean");
  for (double log : logs) std::printf(" %10.1f", std::exp(log / count));
  std::printf("\n");
}
