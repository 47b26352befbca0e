#!/usr/bin/env python3
"""PyTorch's side of the tests of autocast: makes tests/golden/autocast_lists.txt and autocast_gpt.txt.

    parity_autocast.py [--out tests/golden] [--cpu]

autocast_lists.txt: a row for each operation of autograd/ops.h that PyTorch has too: our name, PyTorch's, and the list of its CUDA table that
names it: low (lower_precision_fp), f32 (fp32, or fp32_set_opt_dtype), widest (promote), or inputs for one in no list. The
lists are read from ATen/autocast_mode.h of the wheel. --cpu prints the rows whose result torch.autocast("cpu") gives
another dtype.
autocast_gpt.txt: how far the gradients of the GPT of gpt_parity.safetensors are from its f32 ones under
torch.autocast("cpu", bf16), with the losses in f32 as on CUDA: the relative L2 distance of each over 16 batches, of which
number i has i more in each token and target, modulo the vocabulary; and that of all ("all").
Run it with the Python that tools/setup_peers.sh makes.
"""
import argparse
import re
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.path.insert(0, str(ROOT / "tools"))
import torch_gpt  # noqa: E402
from parity_torch import SHAPE  # noqa: E402

LISTS = {"LOWER_PRECISION_FP": "low", "FP32": "f32", "FP32_SET_OPT_DTYPE": "f32", "PROMOTE": "widest"}
PYTORCHS_NAME = {
    "attention": "scaled_dot_product_attention", "bce_with_logits": "binary_cross_entropy_with_logits",
    "concat": "cat", "cross_entropy": "nll_loss", "interpolate": "upsample_bilinear2d", "smooth_l1": "smooth_l1_loss",
    "square": "pow", "number / x": "reciprocal", "variance": "var", "equal": "eq", "not_equal": "ne", "less": "lt",
    "less_equal": "le", "greater": "gt", "greater_equal": "ge", "max": "amax", "min": "amin",
}
OURS = """add sub mul div maximum minimum where equal not_equal less less_equal greater greater_equal concat stack scatter_add
exp log sqrt rsqrt square reciprocal abs sin cos tanh sigmoid erf relu gelu silu neg clamp pow sum mean variance max min argmax
reshape transpose permute slice select expand unsqueeze squeeze clone gather matmul linear layer_norm rms_norm batch_norm
group_norm softmax log_softmax embedding conv2d conv_transpose2d max_pool2d avg_pool2d interpolate pad dropout attention
cross_entropy bce_with_logits smooth_l1""".split() + ["number / x"]


def lists_of_the_header():
    header = Path(torch.__file__).parent / "include/ATen/autocast_mode.h"
    found = {}
    for name, body in re.findall(r"#define AT_FORALL_(\w+)\(_\)((?:.*\\\n)+.*)", header.read_text()):
        for op in re.findall(r"_\((\w+)[,)]", body):
            if name in LISTS:
                found.setdefault(op, LISTS[name])
    return found


def cpu_results():
    """{our name: dtypes of the results for bf16 and for f32 arguments}, for what the two tables disagree about."""
    calls = {
        "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(-1), "exp": torch.exp, "log": torch.log,
        "layer_norm": lambda x: F.layer_norm(x, (4,)), "rms_norm": lambda x: F.rms_norm(x, (4,)), "sum": torch.sum,
        "pow": lambda x: x.pow(3), "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal, "gelu": F.gelu, "mean": torch.mean,
        "group_norm": lambda x: F.group_norm(x, 2), "interpolate": lambda x: F.interpolate(x, scale_factor=2),
        "linear": lambda x: F.linear(x, x[0, 0]), "square": torch.square,
        "smooth_l1": lambda x: F.smooth_l1_loss(x, x), "pad": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    }
    with torch.autocast("cpu", torch.bfloat16):
        return {name: [str(call(torch.rand(2, 2, 4, 4, dtype=dtype) + 1).dtype)[6:]
                       for dtype in (torch.bfloat16, torch.float32)] for name, call in calls.items()}


def distances_of_gradients(start):
    """{parameter: relative L2 distance of its gradient under autocast from that in f32}."""
    in_its_dtype = F.cross_entropy
    torch_gpt.F.cross_entropy = lambda logits, *rest: in_its_dtype(logits.float(), *rest)

    def gradients(batch, enabled):
        model = torch_gpt.Gpt(SHAPE)
        model.load_state_dict({name: start[name] for name in model.state_dict()})
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            loss = model(*((start[key] + batch) % SHAPE.vocab for key in ("tokens", "targets")))
        loss.backward()
        return {name: p.grad.double() for name, p in model.named_parameters()}

    off, squares = {}, {}
    for batch in range(16):
        want, got = gradients(batch, False), gradients(batch, True)
        for name in want:
            off[name] = off.get(name, 0) + (got[name] - want[name]).square().sum().item()
            squares[name] = squares.get(name, 0) + want[name].square().sum().item()
    off["all"], squares["all"] = sum(off.values()), sum(squares.values())
    return {name: (off[name] / squares[name]) ** 0.5 for name in sorted(off)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "tests/golden")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    listed = lists_of_the_header()
    rows = [(ours, PYTORCHS_NAME.get(ours, ours)) for ours in OURS]
    lists = {ours: listed.get(theirs, "inputs") for ours, theirs in rows}
    text = "".join(f"{ours}\t{theirs}\t{lists[ours]}\n" for ours, theirs in rows)
    (options.out / "autocast_lists.txt").write_text(f"# PyTorch {torch.__version__}\n{text}")
    distances = distances_of_gradients(load_file(ROOT / "tests/golden/gpt_parity.safetensors"))
    rows = "".join(f"{name}\t{distance:.6f}\n" for name, distance in distances.items())
    (options.out / "autocast_gpt.txt").write_text(f"# PyTorch {torch.__version__}\n{rows}")
    if options.cpu:
        for name, dtypes in cpu_results().items():
            print(f"{name}: {lists[name]} on CUDA; on a CPU bf16 gives {dtypes[0]}, f32 {dtypes[1]}")


if __name__ == "__main__":
    main()
