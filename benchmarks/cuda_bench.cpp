// Speed of the CUDA kernels against two ceilings measured in the same run: a device copy and a large matrix
// product. Times are medians of events around single calls; data are random, and larger than the caches.
//
//   cuda_bench [--tiny] [WORDS...]     one JSON object a line: {"name", "microseconds",
//   "gigabytes_per_second",
//                                      "teraflops"}; --tiny takes small sizes, for a rehearsal in the
//                                      emulator
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "reprise/core/cuda/runtime.h"
#include "reprise/kernels/attention/backend.h"
#include "reprise/kernels/elementwise/copy.h"
#include "reprise/kernels/elementwise/dropout.h"
#include "reprise/kernels/elementwise/elementwise.h"
#include "reprise/kernels/elementwise/random_fill.h"
#include "reprise/kernels/gemm/gemm.h"
#include "reprise/kernels/index/embedding.h"
#include "reprise/kernels/norm/layer_norm.h"
#include "reprise/kernels/norm/rms_norm.h"
#include "reprise/kernels/optimizer/gradient_norm.h"
#include "reprise/kernels/optimizer/optimizer_step.h"
#include "reprise/kernels/softmax/cross_entropy.h"
#include "reprise/kernels/softmax/softmax.h"
#include "reprise/reprise.h"

namespace {

using namespace reprise;

const Device gpu = Device::cuda();

/// A kernel call, and the least it must do.
struct Case {
  std::string name;
  double bytes, operations;
  std::function<void(const Stream&)> call;
};

struct Sizes {
  int64_t rows, width, vocab, classes_rows, parameters, batch, heads, length, gemm;
};
constexpr Sizes full_sizes = {65536, 768, 50304, 8192, 124'000'000, 16, 12, 1024, 8192};
constexpr Sizes tiny_sizes = {8, 64, 96, 4, 1000, 1, 2, 32, 64};

Tensor random_tensor(const Shape& shape, DType dtype = DType::bf16) {
  Tensor x = Tensor::empty(shape, dtype, gpu);
  static uint64_t offset = 0;
  kernels::fill_normal(current_stream(gpu), x, 0, 1, 1, ++offset);
  return x;
}

Tensor random_indices(int64_t count, int64_t classes) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = int64_t(to_unit_float(philox_block(3, 0, i)[0]) * float(classes));
  return Tensor::from(values, {count}, gpu);
}

double bytes_of(std::initializer_list<Tensor> tensors) {
  double bytes = 0;
  for (const Tensor& x : tensors) bytes += double(x.numel()) * double(size_of(x.dtype()));
  return bytes;
}

/// Median seconds of a call.
double seconds_of(const Case& c, int rounds) {
  Stream stream = current_stream(gpu);
  void *begin = cuda::create_event(gpu.index, true), *end = cuda::create_event(gpu.index, true);
  std::vector<double> seconds;
  for (int i = 0; i < rounds + 3; ++i) {
    cuda::record_event(begin, stream.handle());
    c.call(stream);
    cuda::record_event(end, stream.handle());
    cuda::synchronize_event(end);
    if (i >= 3) seconds.push_back(cuda::seconds_between(begin, end));
  }
  cuda::destroy_event(begin);
  cuda::destroy_event(end);
  std::nth_element(seconds.begin(), seconds.begin() + long(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

void add_rows(std::vector<Case>& cases, const Sizes& s) {
  Tensor x = random_tensor({s.rows, s.width}), dy = random_tensor({s.rows, s.width}),
         y = random_tensor({s.rows, s.width});
  Tensor gamma = random_tensor({s.width}), beta = random_tensor({s.width});
  Tensor mean = random_tensor({s.rows}, DType::f32), rstd = random_tensor({s.rows}, DType::f32);
  cases.push_back({"copy", bytes_of({x, y}), 0, [=](const Stream& stream) { kernels::copy(stream, x, y); }});
  cases.push_back(
      {"layer_norm forward", bytes_of({x, y}), 0, [=](const Stream& stream) {
         kernels::layer_norm(
             stream, {.x = x, .gamma = gamma, .beta = beta, .eps = 1e-5, .y = y, .mean = mean, .rstd = rstd});
       }});
  Tensor dgamma = random_tensor({s.width}), dbeta = random_tensor({s.width});
  cases.push_back({"layer_norm backward", bytes_of({x, dy, y}), 0, [=](const Stream& stream) {
                     kernels::layer_norm_backward(stream, {.dy = dy,
                                                           .x = x,
                                                           .gamma = gamma,
                                                           .mean = mean,
                                                           .rstd = rstd,
                                                           .dx = y,
                                                           .dgamma = dgamma,
                                                           .dbeta = dbeta});
                   }});
  cases.push_back({"rms_norm forward", bytes_of({x, y}), 0, [=](const Stream& stream) {
                     kernels::rms_norm(stream, {.x = x, .gamma = gamma, .eps = 1e-5, .y = y, .rstd = rstd});
                   }});
  cases.push_back({"rms_norm backward", bytes_of({x, dy, y}), 0, [=](const Stream& stream) {
                     kernels::rms_norm_backward(
                         stream, {.dy = dy, .x = x, .gamma = gamma, .rstd = rstd, .dx = y, .dgamma = dgamma});
                   }});
  cases.push_back({"softmax forward", bytes_of({x, y}), 0,
                   [=](const Stream& stream) { kernels::softmax(stream, x, y); }});
  cases.push_back({"gelu_tanh forward", bytes_of({x, y}), 0,
                   [=](const Stream& stream) { kernels::unary(stream, kernels::UnaryOp::gelu_tanh, x, y); }});
  cases.push_back({"dropout forward", bytes_of({x, y}), 0,
                   [=](const Stream& stream) { kernels::dropout(stream, x, 0.1, 1, 2, y); }});
}

void add_model_ends(std::vector<Case>& cases, const Sizes& s) {
  Tensor table = random_tensor({s.vocab, s.width}), tokens = random_indices(s.rows, s.vocab);
  Tensor y = random_tensor({s.rows, s.width});
  cases.push_back({"embedding forward", 2 * bytes_of({y}), 0,
                   [=](const Stream& stream) { kernels::embedding(stream, table, tokens, y); }});
  cases.push_back({"embedding backward", bytes_of({y}) + 2 * bytes_of({table}), 0,
                   [=](const Stream& stream) { kernels::embedding_backward(stream, y, tokens, table); }});
  Tensor logits = random_tensor({s.classes_rows, s.vocab}), targets = random_indices(s.classes_rows, s.vocab);
  Tensor losses = random_tensor({s.classes_rows}, DType::f32);
  cases.push_back({"cross_entropy in place", 2 * bytes_of({logits}), 0, [=](const Stream& stream) {
                     kernels::cross_entropy(
                         stream, {.logits = logits, .targets = targets, .losses = losses, .dlogits = logits});
                   }});
  Tensor p = random_tensor({s.parameters}, DType::f32), g = random_tensor({s.parameters}, DType::f32);
  Tensor m = Tensor::zeros({s.parameters}, DType::f32, gpu),
         v = Tensor::zeros({s.parameters}, DType::f32, gpu);
  Tensor norm = Tensor::zeros({}, DType::f64, gpu);
  cases.push_back({"adamw", bytes_of({p, p, g, m, m, v, v}), 0, [=](const Stream& stream) {
                     kernels::AdamWTensor tensor{p, g, m, v, 1e-4, 0.1};
                     kernels::adamw(stream, {&tensor, 1}, {});
                   }});
  // What autocast asks of an update: 16-bit values written beside the weights, gradients looked at for what is not finite.
  Tensor rounded = Tensor::zeros({s.parameters}, DType::bf16, gpu);
  cases.push_back(
      {"adamw and shadows", bytes_of({p, p, g, m, m, v, v, rounded}), 0, [=](const Stream& stream) {
         kernels::AdamWTensor tensor{p, g, m, v, 1e-4, 0.1, rounded};
         kernels::adamw(stream, {&tensor, 1}, {});
       }});
  Tensor found = Tensor::zeros({}, DType::i32, gpu), gradient_scale = Tensor::zeros({}, DType::f64, gpu);
  cases.push_back({"norm_and_check", bytes_of({g}), 0, [=](const Stream& stream) {
                     kernels::norm_and_check(
                         stream, {&g.view(), 1},
                         {.clip = 1, .found = found, .norm = norm, .gradient_scale = gradient_scale});
                   }});
  cases.push_back({"global_norm", bytes_of({g}), 0, [=](const Stream& stream) {
                     kernels::global_norm(stream, {&g.view(), 1}, norm);
                   }});
}

void add_attention(std::vector<Case>& cases, const Sizes& s, int64_t head_dim, int64_t batch, int64_t length,
                   bool causal) {
  Shape shape = {batch, s.heads, length, head_dim};
  Tensor q = random_tensor(shape), k = random_tensor(shape), v = random_tensor(shape),
         out = random_tensor(shape);
  Tensor dout = random_tensor(shape), dq = random_tensor(shape), dk = random_tensor(shape),
         dv = random_tensor(shape);
  Tensor lse = random_tensor({batch, s.heads, length}, DType::f32);
  kernels::AttentionOptions options{.causal = causal};
  double pairs =
      double(batch * s.heads) * double(length) * double(length) / (causal ? 2 : 1) * double(head_dim);
  std::string name = detail::join("attention D", head_dim, " T", length, causal ? " causal " : " full ");
  auto forward = [=](const Stream& stream) {
    kernels::attention(stream, {.q = q, .k = k, .v = v, .options = options, .out = out, .lse = lse});
  };
  auto backward = [=](const Stream& stream) {
    kernels::attention_backward(stream, {.dout = dout,
                                         .q = q,
                                         .k = k,
                                         .v = v,
                                         .out = out,
                                         .lse = lse,
                                         .options = options,
                                         .dq = dq,
                                         .dk = dk,
                                         .dv = dv});
  };
  using kernels::AttentionBackend;
  for (const AttentionBackend backend : kernels::attention_backends) {
    if (!kernels::has_attention_backend(backend)) continue;
    auto on = [=](auto pass) {
      return [=](const Stream& stream) {
        kernels::set_attention_backend(backend);
        pass(stream);
      };
    };
    const bool is_default = backend == AttentionBackend::automatic;
    const std::string by = is_default ? "" : detail::join(", ", kernels::name_of(backend));
    cases.push_back({name + "forward" + by, bytes_of({q, k, v, out}), 4 * pairs, on(forward)});
    if (backend != AttentionBackend::sm90)  // which leaves it to our other kernels
      cases.push_back(
          {name + "backward" + by, bytes_of({q, k, v, out, dout, dq, dk, dv}), 10 * pairs, on(backward)});
  }
}

void add_gemm(std::vector<Case>& cases, const std::string& name, int64_t m, int64_t n, int64_t k, bool gelu) {
  Tensor a = random_tensor({m, k}), b = random_tensor({n, k}), c = random_tensor({m, n}),
         bias = random_tensor({n});
  Tensor before = gelu ? random_tensor({m, n}) : Tensor();
  double operations = 2 * double(m) * double(n) * double(k);
  cases.push_back(
      {name, bytes_of({a, b, c}), operations, [=](const Stream& stream) {
         kernels::Epilogue epilogue;
         if (gelu)
           epilogue = {.bias = bias, .activation = kernels::Activation::gelu_tanh, .pre_activation = before};
         kernels::gemm(stream, {.a = a, .b = transpose(b.view(), 0, 1), .c = c, .epilogue = epilogue});
       }});
}

/// The gradient of a weight (out, in), alone and with that of its bias: whether one pass pays.
void add_weight_gradient(std::vector<Case>& cases, int64_t rows, int64_t out, int64_t in) {
  Tensor dy = random_tensor({rows, out}), x = random_tensor({rows, in}), dweight = random_tensor({out, in}),
         dbias = random_tensor({out});
  for (bool with_bias : {false, true})
    cases.push_back({with_bias ? "gemm dweight and dbias" : "gemm dweight", bytes_of({dy, x, dweight}),
                     2 * double(rows) * double(out) * double(in), [=](const Stream& stream) {
                       kernels::Epilogue epilogue;
                       if (with_bias) epilogue.bias_gradient = dbias;
                       kernels::gemm(
                           stream,
                           {.a = transpose(dy.view(), 0, 1), .b = x, .c = dweight, .epilogue = epilogue});
                     }});
}

std::vector<Case> all_cases(const Sizes& s, bool is_tiny) {
  std::vector<Case> cases;
  add_rows(cases, s);
  add_model_ends(cases, s);
  add_attention(cases, s, 64, s.batch, s.length, true);
  add_attention(cases, s, 64, s.batch, s.length, false);
  if (!is_tiny) add_attention(cases, s, 128, 2, 8192, true);
  add_gemm(cases, "gemm square", s.gemm, s.gemm, s.gemm, false);
  add_gemm(cases, "gemm 4C bias gelu", s.rows, 4 * s.width, s.width, true);
  add_gemm(cases, "gemm C from 4C", s.rows, s.width, 4 * s.width, false);
  add_weight_gradient(cases, s.rows, 4 * s.width, s.width);
  return cases;
}

}  // namespace

int main(int argc, char** argv) {
  bool is_tiny = false;
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--tiny")
      is_tiny = true;
    else
      words.push_back(argv[i]);
  }
  if (Device::cuda_count() == 0) {
    std::fprintf(stderr, "cuda_bench: no CUDA device: %s\n", cuda::unavailable_reason().c_str());
    return 2;
  }
  for (const Case& c : all_cases(is_tiny ? tiny_sizes : full_sizes, is_tiny)) {
    bool wanted = words.empty() || std::any_of(words.begin(), words.end(), [&](const std::string& word) {
                    return c.name.find(word) != std::string::npos;
                  });
    if (!wanted) continue;
    double seconds = seconds_of(c, is_tiny ? 1 : 25);
    std::printf(
        "{\"name\": \"%s\", \"microseconds\": %.2f, \"gigabytes_per_second\": %.1f, \"teraflops\": %.2f}\n",
        c.name.c_str(), seconds * 1e6, c.bytes / seconds / 1e9, c.operations / seconds / 1e12);
    std::fflush(stdout);
  }
}
