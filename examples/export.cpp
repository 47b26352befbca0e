// A GPT trained here, written as Hugging Face's GPT2LMHeadModel has it, and read back.
#include "example.h"

int main() {
  const rp::nn::GptOptions options{.vocab_size = 11, .context = 8, .layers = 2, .heads = 2, .width = 16};
  rp::nn::Gpt model(options), back(options);
  fill(model.parameters());
  const rp::Tensor text = rp::square(rp::arange(36)).reshape({4, 9});  // 0, 1, 4, 9, ...
  const rp::Tensor tokens =
      text - (text.to(rp::DType::f64) / 11.0).to(rp::DType::i64) * rp::scalar(11, rp::DType::i64);
  auto loss_of = [&](rp::nn::Gpt& gpt) {
    return rp::cross_entropy(gpt(tokens.slice(1, 0, 8)), tokens.slice(1, 1, 9));
  };
  rp::optim::AdamW optimizer(model.parameters(), {.lr = 1e-2, .weight_decay = 0});
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    loss_of(model).backward();
    optimizer.step();
  }
  report("loss", loss_of(model).item());
  rp::save("model.safetensors", rp::nn::write_dialect(model.state_dict(), {rp::nn::Architecture::gpt,
                                                                           rp::nn::Naming::hugging_face}));
  const rp::nn::NamedTensors written = rp::load("model.safetensors");
  for (const auto& [name, tensor] : written)
    if (name == "transformer.h.1.mlp.c_fc.weight") report("row", tensor.select(0, 3).sum().item());
  back.load_state_dict(rp::nn::read_dialect(written).tensors);
  report("loss", loss_of(back).item());
}
