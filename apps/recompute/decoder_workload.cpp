// Decoders, GPTs and Llamas, on random tokens or a text.
#include <algorithm>
#include <optional>

#include "reprise/apps/common/models/model_size.h"
#include "reprise/apps/recompute/families.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/no_compute.h"
#include "reprise/io/text/char_tokenizer.h"
#include "reprise/io/text/text.h"
#include "reprise/io/text/token_batches.h"
#include "reprise/train/option_error.h"

namespace reprise::apps::recompute {
namespace {

template <class Sizes>
struct Preset {
  const char* name;
  Sizes model;
  int64_t rows, length;
};

const Preset<nn::GptOptions> gpt_presets[] = {
    {"tiny", {.vocab_size = 65, .context = 32, .layers = 4, .heads = 2, .width = 32}, 4, 32},
    {"gpt_6x384", {.vocab_size = 65, .context = 256, .layers = 6, .heads = 6, .width = 384}, 16, 256},
    {"gpt2_124m", {}, 4, 256},
    {"gpt2_355m", {.layers = 24, .heads = 16, .width = 1024}, 4, 1024},
    {"gpt2_774m", {.layers = 36, .heads = 20, .width = 1280}, 4, 1024},
    {"gpt2_1.5b", {.layers = 48, .heads = 25, .width = 1600}, 4, 1024},
};

// From the second on as their config.json has them: TinyLlama 1.1B, Llama 2 7B, Llama 3 8B, Mistral 7B v0.1, Qwen3 0.6B.
const Preset<nn::LlamaOptions> llama_presets[] = {
    {"llama_tiny",
     {.vocab_size = 65, .context = 32, .layers = 4, .heads = 4, .kv_heads = 2, .width = 32},
     4,
     32},
    {"llama_1.1b",
     {.vocab_size = 32000,
      .context = 2048,
      .layers = 22,
      .heads = 32,
      .kv_heads = 4,
      .width = 2048,
      .hidden = 5632},
     1,
     2048},
    {"llama2_7b",
     {.vocab_size = 32000, .context = 4096, .layers = 32, .heads = 32, .width = 4096, .hidden = 11008},
     1,
     4096},
    {"llama3_8b",
     {.vocab_size = 128256,
      .context = 8192,
      .layers = 32,
      .heads = 32,
      .kv_heads = 8,
      .width = 4096,
      .hidden = 14336,
      .rope_theta = 500000},
     1,
     8192},
    {"mistral_7b",
     {.vocab_size = 32000,
      .context = 32768,
      .layers = 32,
      .heads = 32,
      .kv_heads = 8,
      .width = 4096,
      .hidden = 14336,
      .window = 4096},
     1,
     8192},
    {"qwen3_0.6b",
     {.vocab_size = 151936,
      .context = 40960,
      .layers = 28,
      .heads = 16,
      .kv_heads = 8,
      .width = 1024,
      .hidden = 3072,
      .head_dim = 128,
      .norm_eps = 1e-6,
      .rope_theta = 1000000,
      .tied = true,
      .qk_norm = true},
     1,
     4096},
};

template <class Presets>
const auto& find_preset(const Presets& of, const std::string& name) {
  return *std::find_if(std::begin(of), std::end(of), [&](const auto& p) { return p.name == name; });
}

// What both have: batches of tokens.
class TokenWorkload : public Workload {
 public:
  Batch batch(int64_t step, int64_t n) const override;

 protected:
  using Workload::Workload;
  /// The preset's model, with what sizes the options give, and their text.
  template <class Sizes>
  void take(const WorkloadOptions& options, const Preset<Sizes>& preset, Sizes& model);
  template <class Sizes>
  std::string described(const char* name, const Sizes& model) const;

 private:
  int64_t vocab_size_ = 0;
  std::optional<io::TokenDataset> text_;
};

template <class Sizes>
void TokenWorkload::take(const WorkloadOptions& o, const Preset<Sizes>& preset, Sizes& model) {
  model = preset.model;
  model.layers = or_else(o.layers, model.layers);
  model.width = or_else(o.width, model.width);
  model.heads = or_else(o.heads, model.heads);
  model.context = or_else(o.context, model.context);
  model.vocab_size = or_else(o.vocab_size, model.vocab_size);
  rows = or_else(o.batch, preset.rows);
  units_per_row = or_else(o.length, std::min(preset.length, model.context));
  check(model.width % model.heads == 0, "--width ", model.width, " is not a multiple of --heads ",
        model.heads);
  check(units_per_row <= model.context, "--length ", units_per_row, " is more than the --context of ",
        model.context);
  if (!o.data.empty()) {
    check(o.vocab_size == 0, "--vocab-size and --data do not go together: the text has a vocabulary");
    train::under_option("--data", [&] {
      const std::string text = io::read_text(o.data);
      auto tokenizer = io::CharTokenizer::from_text(text);
      text_.emplace(io::TokenDataset::from_ids(tokenizer.encode(text), tokenizer.vocab_size(), o.data));
      model.vocab_size = tokenizer.vocab_size();
    });
  }
  vocab_size_ = model.vocab_size;
  blocks = model.layers;
}

template <class Sizes>
std::string TokenWorkload::described(const char* name, const Sizes& model) const {
  return detail::join(name, ": ", model.layers, " layers, ", model.heads, " heads, width ", model.width,
                      ", context ", model.context, ", vocabulary ", model.vocab_size, "; ",
                      per_step(detail::join(rows, " x ", units_per_row, " tokens")));
}

Batch TokenWorkload::batch(int64_t step, int64_t n) const {
  MemoryScope scope(MemoryCategory::data);
  if (text_) {
    io::TokenBatch batch = io::RandomCrops(*text_, units_per_row, seed).batch(step, 0, n);
    return {batch.tokens.to(device), batch.targets.to(device)};
  }
  Generator generator(philox_block(seed, uint64_t(step), 0)[0]);
  auto draw = [&] {
    Tensor uniform = rand({n, units_per_row}, DType::f32, device, &generator);
    return cast(uniform * double(vocab_size_), DType::i64);
  };
  Tensor tokens = draw();
  return {tokens, draw()};
}

class GptWorkload final : public TokenWorkload {
 public:
  explicit GptWorkload(const WorkloadOptions& o) : TokenWorkload(o) {
    take(o, find_preset(gpt_presets, o.model), model_);
    model_.dropout = o.dropout;
    if (!NoCompute::is_on()) check_fits(model_, rows, units_per_row, device);
  }
  std::string to_string() const override { return described("GPT", model_); }
  Model make_model() const override {
    auto gpt = std::make_shared<nn::Gpt>(model_, device);
    return {gpt, gpt->h,
            [gpt](const Batch& batch) { return cross_entropy((*gpt)(batch.input), batch.targets); },
            [gpt](const Tensor& tokens) { return gpt->h.profile(tokens); }};
  }

 private:
  nn::GptOptions model_;
};

class LlamaWorkload final : public TokenWorkload {
 public:
  explicit LlamaWorkload(const WorkloadOptions& o) : TokenWorkload(o) {
    const auto& preset = find_preset(llama_presets, o.model);
    take(o, preset, model_);
    if (o.width > 0) model_.hidden = 0;      // 8/3 of it
    if (o.heads > 0 && model_.kv_heads > 0)  // as many share one as in the preset
      model_.kv_heads = std::max<int64_t>(1, o.heads * preset.model.kv_heads / preset.model.heads);
    if (!NoCompute::is_on()) check_fits(model_, rows, units_per_row, device);
  }
  std::string to_string() const override { return described("Llama", model_); }
  Model make_model() const override {
    auto llama = std::make_shared<nn::Llama>(model_, device);
    return {llama, llama->layers,
            [llama](const Batch& batch) { return cross_entropy((*llama)(batch.input), batch.targets); },
            [llama](const Tensor& tokens) { return llama->layers.profile(tokens); }};
  }

 private:
  nn::LlamaOptions model_;
};

template <class Family, class Presets>
ModelFamily family_of(const Presets& presets, std::vector<std::string> options) {
  ModelFamily family{{}, std::move(options), [](const WorkloadOptions& given) -> std::unique_ptr<Workload> {
                       return std::make_unique<Family>(given);
                     }};
  for (const auto& preset : presets) family.names.emplace_back(preset.name);
  return family;
}

}  // namespace

ModelFamily gpt_family() {
  return family_of<GptWorkload>(gpt_presets, {"--layers", "--width", "--heads", "--context", "--vocab-size",
                                              "--dropout", "--length", "--data"});
}

ModelFamily llama_family() {
  return family_of<LlamaWorkload>(
      llama_presets, {"--layers", "--width", "--heads", "--context", "--vocab-size", "--length", "--data"});
}

}  // namespace reprise::apps::recompute
