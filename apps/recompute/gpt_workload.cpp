// GPTs on random tokens or a text.
#include <algorithm>
#include <optional>

#include "reprise/apps/recompute/families.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/no_compute.h"
#include "reprise/io/text/char_tokenizer.h"
#include "reprise/io/text/text.h"
#include "reprise/io/text/token_batches.h"
#include "reprise/nn/models/gpt.h"
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
    {"gpt2_355m", {.layers = 24, .heads = 16, .width = 1024}, 4, 1024},
    {"gpt2_774m", {.layers = 36, .heads = 20, .width = 1280}, 4, 1024},
    {"gpt2_1.5b", {.layers = 48, .heads = 25, .width = 1600}, 4, 1024},
};

const Preset& find_preset(const std::string& name) {
  return *std::find_if(std::begin(presets), std::end(presets),
                       [&](const Preset& p) { return p.name == name; });
}

class GptWorkload final : public Workload {
 public:
  explicit GptWorkload(const WorkloadOptions& options);
  Model make_model() const override;
  Batch batch(int64_t step, int64_t n) const override;
  std::string to_string() const override;

 private:
  void read_text(const std::string& path);

  nn::GptOptions model_;
  std::optional<io::TokenDataset> text_;
};

GptWorkload::GptWorkload(const WorkloadOptions& o) : Workload(o) {
  const Preset& preset = find_preset(o.model);
  model_ = preset.model;
  model_.layers = or_else(o.layers, model_.layers);
  model_.width = or_else(o.width, model_.width);
  model_.heads = or_else(o.heads, model_.heads);
  model_.context = or_else(o.context, model_.context);
  model_.vocab_size = or_else(o.vocab_size, model_.vocab_size);
  model_.dropout = o.dropout;
  rows = or_else(o.batch, preset.rows);
  units_per_row = or_else(o.length, std::min(preset.length, model_.context));
  check(model_.width % model_.heads == 0, "--width ", model_.width, " is not a multiple of --heads ",
        model_.heads);
  check(units_per_row <= model_.context, "--length ", units_per_row, " is more than the --context of ",
        model_.context);
  if (!o.data.empty()) {
    check(o.vocab_size == 0, "--vocab-size and --data do not go together: the text has a vocabulary");
    train::under_option("--data", [&] { read_text(o.data); });
  }
  blocks = model_.layers;
  if (!NoCompute::is_on()) train::check_fits(model_, rows, units_per_row, device);
}

void GptWorkload::read_text(const std::string& path) {
  std::string text = io::read_text(path);
  auto tokenizer = io::CharTokenizer::from_text(text);
  text_.emplace(io::TokenDataset::from_ids(tokenizer.encode(text), tokenizer.vocab_size(), path));
  model_.vocab_size = tokenizer.vocab_size();
}

Batch GptWorkload::batch(int64_t step, int64_t n) const {
  MemoryScope scope(MemoryCategory::data);
  if (text_) {
    io::TokenBatch batch = io::RandomCrops(*text_, units_per_row, seed).batch(step, 0, n);
    return {batch.tokens.to(device), batch.targets.to(device)};
  }
  Generator generator(philox_block(seed, uint64_t(step), 0)[0]);
  auto draw = [&] {
    Tensor uniform = rand({n, units_per_row}, DType::f32, device, &generator);
    return cast(uniform * double(model_.vocab_size), DType::i64);
  };
  Tensor tokens = draw();
  return {tokens, draw()};
}

std::string GptWorkload::to_string() const {
  return detail::join("GPT: ", model_.layers, " layers, ", model_.heads, " heads, width ", model_.width,
                      ", context ", model_.context, ", vocabulary ", model_.vocab_size, "; ",
                      per_step(detail::join(rows, " x ", units_per_row, " tokens")));
}

Workload::Model GptWorkload::make_model() const {
  auto gpt = std::make_shared<nn::Gpt>(model_, device);
  return {gpt, gpt->h,
          [gpt](const Batch& batch) { return cross_entropy((*gpt)(batch.input), batch.targets); },
          [gpt](const Tensor& tokens) { return gpt->h.profile(tokens); }};
}

}  // namespace

ModelFamily gpt_family() {
  ModelFamily family{
      {},
      {"--layers", "--width", "--heads", "--context", "--vocab-size", "--dropout", "--length", "--data"},
      [](const WorkloadOptions& options) -> std::unique_ptr<Workload> {
        return std::make_unique<GptWorkload>(options);
      }};
  for (const Preset& preset : presets) family.names.emplace_back(preset.name);
  return family;
}

}  // namespace reprise::apps::recompute
