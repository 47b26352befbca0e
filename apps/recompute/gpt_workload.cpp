// Presets, random tokens and the training step.
#include "reprise/apps/recompute/workload.h"

#include <chrono>
#include <iterator>

#include "reprise/autograd/ops.h"
#include "reprise/core/parallel.h"
#include "reprise/io/text/char_tokenizer.h"
#include "reprise/io/text/text.h"
#include "reprise/train/model_size.h"
#include "reprise/train/option_error.h"

namespace reprise::apps::recompute {
namespace {

struct Preset {
  const char* name;
  nn::GptOptions model;
  int64_t rows, length;
};

const Preset presets[] = {
    {"tiny", {.vocab_size = 65, .context = 32, .layers = 4, .heads = 2, .width = 32}, 4, 32},
    {"gpt_6x384", {.vocab_size = 65, .context = 256, .layers = 6, .heads = 6, .width = 384}, 16, 256},
    {"gpt2_124m", {}, 4, 256},
};

const Preset& find_preset(const std::string& name) {
  for (const Preset& preset : presets)
    if (name == preset.name) return preset;
  fail("--model '", name, "' is not one of tiny, gpt_6x384 and gpt2_124m");
}

int64_t or_else(int64_t given, int64_t preset) { return given > 0 ? given : preset; }

}  // namespace

Workload::Workload(const WorkloadOptions& o) : device(Device::parse(o.device)), seed(uint64_t(o.seed)) {
  const Preset& preset = find_preset(o.model);
  model = preset.model;
  model.layers = or_else(o.layers, model.layers);
  model.width = or_else(o.width, model.width);
  model.heads = or_else(o.heads, model.heads);
  model.context = or_else(o.context, model.context);
  model.vocab_size = or_else(o.vocab, model.vocab_size);
  model.dropout = o.dropout;
  rows = or_else(o.batch, preset.rows);
  length = or_else(o.length, std::min(preset.length, model.context));
  check(model.width % model.heads == 0, "--width ", model.width, " is not a multiple of --heads ",
        model.heads);
  check(length <= model.context, "--length ", length, " is more than the --context of ", model.context);
  if (o.threads > 0) train::under_option("--threads", [&] { set_num_threads(o.threads); });
  if (!o.data.empty()) {
    check(o.vocab == 0, "--vocab and --data do not go together: the text has a vocabulary");
    train::under_option("--data", [&] { read_text(o.data); });
  }
  train::check_fits(model, rows, length, device);
}

void Workload::read_text(const std::string& path) {
  std::string text = io::read_text(path);
  auto tokenizer = io::CharTokenizer::from_text(text);
  text_.emplace(io::TokenDataset::from_ids(tokenizer.encode(text), tokenizer.vocab_size(), path));
  model.vocab_size = tokenizer.vocab_size();
}

io::TokenBatch Workload::batch(int64_t step, int64_t n) const {
  MemoryScope scope(MemoryCategory::data);
  if (text_) {
    io::TokenBatch batch = io::RandomCrops(*text_, length, seed).batch(step, 0, n);
    return {batch.tokens.to(device), batch.targets.to(device)};
  }
  Generator generator(philox_block(seed, uint64_t(step), 0)[0]);
  auto draw = [&] {
    Tensor uniform = rand({n, length}, DType::f32, device, &generator);
    return cast(uniform * double(model.vocab_size), DType::i64);
  };
  Tensor tokens = draw();
  return {tokens, draw()};
}

std::string Workload::to_string() const {
  return detail::join("GPT: ", model.layers, " layers, ", model.heads, " heads, width ", model.width,
                      ", context ", model.context, ", vocabulary ", model.vocab_size, "; ", rows, " x ",
                      length, " tokens a step, on ", device, " (", num_threads(), " threads)");
}

namespace {
nn::GptOptions seeded(const Workload& workload) {
  manual_seed(workload.seed);
  return workload.model;
}
}  // namespace

Trainee::Trainee(const Workload& workload)
    : model(seeded(workload), workload.device),
      workload_(workload),
      optimizer_(optim::decay_matrices(model, 1e-3, 0.1), {.beta1 = 0.9, .beta2 = 0.95}) {}

Tensor Trainee::forward(int64_t step, const io::TokenBatch& batch) {
  manual_seed(workload_.seed + 1 + uint64_t(step));
  return cross_entropy(model(batch.tokens), batch.targets);
}

void Trainee::update() {
  optimizer_.step();
  optimizer_.zero_grad();
}

double Trainee::step(int64_t step, const io::TokenBatch& batch) {
  using Clock = std::chrono::steady_clock;
  auto begin = Clock::now();
  forward(step, batch).backward();
  update();
  synchronize(workload_.device);
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

nn::NamedTensors Trainee::gradients() const {
  nn::NamedTensors all = model.named_parameters();
  for (auto& [name, tensor] : all) tensor = tensor.grad();
  return all;
}

}  // namespace reprise::apps::recompute
