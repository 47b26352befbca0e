#!/usr/bin/env python3
"""transformers' side of the parity test of nn::Llama: writes llama_parity.safetensors.

    parity_llama.py [--out tests/golden]

Small models in f32: "llama." is LlamaForCausalLM, two heads of queries for one of keys and values, with a head of its own;
"qwen2." is Qwen2ForCausalLM, with biases on queries, keys and values and a tied head; "llama3." and "linear." have scaled rotary
positions, of which "llama3." has fast, slow and middling ones; "yarn." has them by YaRN; "qwen3." is Qwen3ForCausalLM, with heads
wider than their part of the width and norms of queries and keys; "mistral." is MistralForCausalLM, with a window of 5 tokens. For each the weights by transformers'
names, tokens, targets, logits, the loss and every gradient ("grad."). Run it with the Python that tools/setup_peers.sh makes.
"""
import argparse
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from transformers import (LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM,
                          Qwen3Config, Qwen3ForCausalLM)

SHAPE = {"vocab_size": 61, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 24, "rms_norm_eps": 1e-5, "attn_implementation": "eager"}
WIDE = SHAPE | {"num_attention_heads": 2, "num_key_value_heads": 1}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 4.0, "beta_slow": 0.5, "original_max_position_embeddings": 32}
MODELS = {
    "llama3.": lambda: LlamaForCausalLM(LlamaConfig(**WIDE, rope_theta=500.0, rope_scaling=dict(LLAMA3),
                                                    tie_word_embeddings=False)),
    "linear.": lambda: LlamaForCausalLM(LlamaConfig(**WIDE, rope_theta=500.0, tie_word_embeddings=False,
                                                    rope_scaling={"rope_type": "linear", "factor": 4.0})),
    "llama.": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE, rope_theta=10000.0, tie_word_embeddings=False)),
    "qwen2.": lambda: Qwen2ForCausalLM(Qwen2Config(**SHAPE, rope_theta=500000.0, tie_word_embeddings=True,
                                                   use_sliding_window=False)),
    "yarn.": lambda: LlamaForCausalLM(LlamaConfig(**WIDE, rope_theta=500.0, rope_scaling=dict(YARN),
                                                  tie_word_embeddings=False)),
    "qwen3.": lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE, head_dim=8, rope_theta=10000.0, tie_word_embeddings=True)),
    "mistral.": lambda: MistralForCausalLM(MistralConfig(**SHAPE, rope_theta=10000.0, tie_word_embeddings=False,
                                                         sliding_window=5)),
}


def theta_of(model):
    """As the model took it: newer versions of transformers keep it in a dictionary."""
    config = model.config
    return getattr(config, "rope_theta", None) or config.rope_parameters["rope_theta"]


def goldens(make):
    torch.manual_seed(11)
    model = make().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():  # far from their usual start, so that norms and biases matter
            noise = torch.randn_like(weight)
            weight.copy_(1 + 0.2 * noise if "norm" in name else 0.2 * noise)
    text = torch.randint(SHAPE["vocab_size"], (3, 25))
    tokens, targets = text[:, :-1].contiguous(), text[:, 1:].contiguous()
    logits = model(tokens).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    result = {"tokens": tokens, "targets": targets, "logits": logits, "loss": loss,
              "rope_theta": torch.tensor(float(theta_of(model)))}
    for name, weight in model.named_parameters():
        result[name], result["grad." + name] = weight, weight.grad
    return {name: x.detach().clone().contiguous() for name, x in result.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent.parent / "tests" / "golden")
    out = parser.parse_args().out
    tensors = {prefix + name: x for prefix, make in MODELS.items() for name, x in goldens(make).items()}
    save_file(tensors, out / "llama_parity.safetensors",
              {"made_by": f"tools/parity_llama.py with transformers {transformers.__version__}"})


main()
