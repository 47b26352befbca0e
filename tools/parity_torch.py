#!/usr/bin/env python3
"""PyTorch's side of the parity tests: makes the golden files, or checks a file that Reprise wrote.

    parity_torch.py [--out tests/golden]   writes gpt_parity.safetensors and ops.safetensors
    parity_torch.py --check FILE           compares FILE, with the keys of gpt_parity.safetensors, with PyTorch

gpt_parity.safetensors: a 2-layer GPT in f32. Weights in the names of Hugging Face's GPT-2, linear ones (out, in); tokens
and targets; loss; every gradient ("grad."); the weights after 10 AdamW steps on the same batch ("after.").
--check starts from the weights and the batch in FILE; exit code 1 if anything differs by more than 1e-5, relative to
the largest value of its tensor. Run it with the Python that tools/setup_peers.sh makes, for example

    REPRISE_PARITY_FILE=/tmp/ours.safetensors build/cpu/bin/nn_tests --gtest_filter='GptParity.*'
    ~/.cache/reprise-peers/bin/python tools/parity_torch.py --check /tmp/ours.safetensors
"""
import argparse
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.path.insert(0, str(ROOT / "tools"))
from parity_ops import op_goldens  # noqa: E402
from torch_gpt import Gpt, GptShape, adamw  # noqa: E402

SHAPE = GptShape(vocab=61, context=16, layers=2, heads=4, width=32, batch=3)
STEPS = 10
ADAMW = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
TOLERANCE = 1e-5
METADATA = {
    "made_by": f"tools/parity_torch.py with PyTorch {torch.__version__.split('+')[0]}",
    "vocab_size": "61", "context": "16", "layers": "2", "heads": "4", "width": "32", "batch": "3",
    "activation": "gelu_tanh", "layer_norm_eps": "1e-5", "steps": "10", "lr": "1e-3", "beta1": "0.9",
    "beta2": "0.95", "eps": "1e-8", "weight_decay": "0.1 on tensors of rank 2 and more", "linear_weights": "(out, in)",
}


def starting_point():
    """Weights far from their usual start, so that biases and norms matter, and a random batch."""
    torch.manual_seed(7)
    state = {}
    for name, tensor in Gpt(SHAPE).state_dict().items():
        noise = torch.randn_like(tensor)
        norm_scale = name.endswith("weight") and tensor.dim() == 1
        state[name] = (1 + 0.2 * noise if norm_scale else 0.2 * noise).contiguous()
    text = torch.randint(SHAPE.vocab, (SHAPE.batch, SHAPE.context + 1))
    return state | {"tokens": text[:, :-1].contiguous(), "targets": text[:, 1:].contiguous()}


def trained(start, dtype=torch.float32):
    """Loss and gradients at the start, and the weights after STEPS steps."""
    model = Gpt(SHAPE).to(dtype)
    model.load_state_dict({name: start[name] for name in model.state_dict()})
    optimizer = adamw(list(model.parameters()), **ADAMW, fused=False)
    result = {}
    for step in range(STEPS):
        loss = model(start["tokens"], start["targets"])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if step == 0:
            result["loss"] = loss.detach().clone()
            result |= {"grad." + name: p.grad.clone() for name, p in model.named_parameters()}
        optimizer.step()
    return result | {"after." + name: p.detach().clone() for name, p in model.named_parameters()}


def without_key_bias(name, tensor):
    """A key's bias shifts all scores of a query alike, so its gradient is 0 but for rounding, which AdamW scales up to
    whole steps: noise on both sides, not compared after training."""
    if name.startswith("after.") and name.endswith("c_attn.bias"):
        q, _, v = tensor.chunk(3)
        return torch.cat([q, v])
    return tensor


def largest_difference(got, want):
    """(relative difference, name) of the worst tensor."""
    worst = (0.0, "nothing")
    for name, tensor in want.items():
        if name not in got:
            return float("inf"), name + " (missing)"
        a, b = (without_key_bias(name, t.double()) for t in (got[name], tensor))
        if a.shape != b.shape:
            return float("inf"), f"{name} (shape {list(a.shape)}, not {list(b.shape)})"
        difference = ((a - b).abs().max() / b.abs().max()).item()
        worst = max(worst, (difference if difference == difference else float("inf"), name))
    return worst


def write_goldens(folder):
    folder.mkdir(parents=True, exist_ok=True)
    start = starting_point()
    result = trained(start)
    rounding, name = largest_difference(result, trained(start, torch.float64))
    print(f"gpt_parity: f32 differs from f64 by {rounding:.1e} ({name})")
    save_file(start | result, folder / "gpt_parity.safetensors", metadata=METADATA)
    tensors, facts = op_goldens()
    save_file(tensors, folder / "ops.safetensors", metadata=facts | {"made_by": METADATA["made_by"]})
    print(f"ops: {len(tensors)} tensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "tests/golden", metavar="FOLDER")
    parser.add_argument("--check", type=Path, metavar="FILE")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.check is None:
        write_goldens(options.out)
        return
    got = load_file(options.check)
    difference, name = largest_difference(got, trained(got))
    print(f"{options.check}: largest relative difference {difference:.2e} ({name}), allowed {TOLERANCE:.0e}")
    sys.exit(difference > TOLERANCE)


if __name__ == "__main__":
    main()
